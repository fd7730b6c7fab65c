"""Real SGLang scheduler on a CPU, stepped by hand: one layer, random weights, no sockets.

For the scripts in this folder. Serves 0.5.10.post1 to 0.5.23. All results shown by a script are
read from the engine's own objects. The methods below only build its input messages.
"""

import dataclasses
import importlib.util
import inspect
import json
import logging
import os
import pathlib
import sys
import tempfile
import traceback
import warnings
from array import array
from collections import deque
from zlib import crc32

for name, value in {
    "OMP_NUM_THREADS": "1",
    "SGLANG_CPU_OMP_THREADS_BIND": "0-1",
    "HF_HUB_OFFLINE": "1",
    "SGLANG_SWA_EVICTION_INTERVAL": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE": "1",
    "SGLANG_CHECK_KV_PAGE_INVARIANTS": "1",
}.items():
    os.environ.setdefault(name, value)

import torch
import torch._inductor.runtime.triton_compat  # before the stubs, which would be mistaken for Triton
import torch.utils._triton

torch.set_num_threads(1)
warnings.simplefilter("ignore")  # of absent packages, also logged by SGLang
logging.disable()
torch.utils._triton.has_triton()

from rounds import answer_rounds, arguments
from stubs import install

install()

from transformers import AutoConfig

_register = AutoConfig.register
AutoConfig.register = lambda kind, config, exist_ok=False: _register(kind, config, exist_ok=True)

import sglang
from sglang.srt.managers import io_struct, scheduler as scheduler_module
from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import PortArgs, ServerArgs

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "bos_token_id": None,
    "eos_token_id": None,
    "tie_word_embeddings": False,
}


def fields(kind):
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return set(getattr(kind, "__struct_fields__", ())) or set(inspect.signature(kind).parameters)


def make(kind, **wanted):
    """Return ``kind(…)`` with fields present in this release, None for other required fields."""
    given = {key: value for key, value in wanted.items() if key in fields(kind)}
    for key, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is inspect.Parameter.empty:
            given.setdefault(key, None)
    return kind(**given)


class Engine:
    """A scheduler. `answers` has the final answer for each finished request, `tokens` the tokens
    sent to its client."""

    def __init__(
        self,
        tokens=64,
        page_size=1,
        running=4,
        rows=4,
        context=48,
        window=0,
        chunk=-1,
        overlap=False,
        draft=0,
        topk=1,
        swa_tokens=40,
        reserve=0.0,
        lucky=False,
        priority=False,
    ):
        self.answers, self.tokens, self.window, self.overlap = {}, {}, window, overlap
        self.draft, self.lucky, self.accepted = draft, lucky, {}
        if window:
            slide(window)
        if page_size > 1:
            page_in_torch()
        args = {
            "device": "cpu",
            "load_format": "dummy",
            "attention_backend": "torch_native",
            "sampling_backend": "pytorch",
            "grammar_backend": "none",
            "dtype": "float32",
            "disable_overlap_schedule": not overlap,
            "skip_tokenizer_init": True,
            "disable_cuda_graph": True,
            "disable_piecewise_cuda_graph": True,
            "max_total_tokens": tokens,
            "max_running_requests": rows,
            "pp_max_micro_batch_size": running,
            "page_size": page_size,
            "chunked_prefill_size": chunk,
            "context_length": context,
            "random_seed": 0,
            "enable_streaming_session": True,
            "mem_fraction_static": 0.5,
            "log_level": "error",
            "schedule_policy": "fcfs",
        }
        if window:
            args["swa_full_tokens_ratio"] = (swa_tokens + 0.5) / tokens
        if draft:
            args |= arguments(draft, topk)
        if priority:  # a difference of 1 is enough for a preemption
            args |= {
                "enable_priority_scheduling": True,
                "priority_scheduling_preemption_threshold": 0,
            }
        with tempfile.TemporaryDirectory() as folder:
            model = {**MODEL, "num_hidden_layers": 2 if window else 1}
            pathlib.Path(folder, "config.json").write_text(json.dumps(model), encoding="utf-8")
            server = make(ServerArgs, model_path=folder, **args)
            self.scheduler = build(server)
        self.cache = self.scheduler.tree_cache
        self.allocator = self.scheduler.token_to_kv_pool_allocator
        self.controller = self.scheduler.session_controller
        self.results = self.scheduler.result_queue = deque()
        self.scheduler.schedule_stream = self.scheduler.device_module.Stream(priority=0)
        self.scheduler.enable_skip_finishing_decode = overlap  # as 0.5.23's overlap loop begins
        if draft:
            answer_rounds(self.scheduler, self._accepts)
        if window:
            read_through_mapping(self.scheduler, self.allocator, window)
        admit(self.scheduler, reserve)
        draw_weights(self.scheduler)
        for module in list(sys.modules.values()):
            sender = vars(module).get("SenderWrapper") if module else None
            if isinstance(sender, type):
                sender.send_output = lambda _, output, recv_obj=None: self._answer(output)

    def _answer(self, output):
        if type(output).__name__ == "AbortReq":
            self.answers[output.rid] = words(output.finished_reason or {"type": "abort"})
        for rid, tokens in zip(
            getattr(output, "rids", None) or (),
            getattr(output, "output_ids", None) or (),
            strict=False,
        ):
            self.tokens.setdefault(rid, []).extend(tokens)
        for rid, reason in zip(
            getattr(output, "rids", None) or (),
            getattr(output, "finished_reasons", ()),
            strict=False,
        ):
            if reason is not None:
                self.answers[rid] = words(reason)

    # Commands of clients, which arrive at once.

    def _send(self, message):
        with torch.inference_mode():
            self.scheduler.process_input_requests([message])

    def open(self, session, streaming=True):
        self._send(
            make(
                io_struct.OpenSessionReqInput,
                session_id=session,
                streaming=streaming,
                capacity_of_str_len=1 << 20,
            )
        )

    def submit(self, rid, tokens, max_new, session=None, stop=(), turn=None, priority=None, **how):
        """Send a request. ``turn``: request to continue, ``how``: fields of `SessionParams`."""
        sampling = SamplingParams(
            max_new_tokens=max_new, temperature=0.0, stop_token_ids=list(stop) or None
        )
        sampling.normalize(None)
        arrays = "array" in str(io_struct.TokenizedGenerateReqInput.__annotations__["input_ids"])
        params = make(io_struct.SessionParams, id=session, rid=turn, **how)
        extra = {"session_params": params} if session else {}
        self._send(
            make(
                io_struct.TokenizedGenerateReqInput,
                rid=rid,
                input_text="",
                stream=False,
                input_ids=array("q", tokens) if arrays else tokens,
                sampling_params=sampling,
                return_logprob=False,
                logprob_start_len=-1,
                top_logprobs_num=0,
                priority=priority,
                **extra,
            )
        )

    def abort(self, rid):
        self._send(make(io_struct.AbortReq, rid=rid))

    def accept(self, rid, tokens):
        """Set the number of tokens accepted in a request's next speculative round."""
        self.accepted[rid] = tokens

    def _accepts(self, rid, computed):
        """Return the tokens to accept: 1, or with ``lucky`` any number, fixed across runs."""
        luck = crc32(f"{rid}:{computed}".encode()) % (self.draft + 1) if self.lucky else 0
        return self.accepted.pop(rid, 0) or 1 + luck

    def close(self, session):
        self._send(make(io_struct.CloseSessionReqInput, session_id=session))

    def retract(self):
        """Retract running requests by the engine's own pause, then resume."""
        self.scheduler.pause_generation(io_struct.PauseGenerationReqInput(mode="retract"))
        self.scheduler._engine_paused = False

    def evict(self, tokens):
        """Evict from the prefix tree, like an allocation short of memory."""
        self.cache.evict(make(EvictParams, num_tokens=tokens, swa_num_tokens=tokens))

    # Iterations of the event loop.

    def step(self, count=1):
        for _ in range(count):
            with torch.inference_mode():
                self._iterate()

    def _iterate(self):
        scheduler = self.scheduler
        if "running_batch" in inspect.signature(scheduler.get_next_batch_to_run).parameters:
            plan = scheduler.get_next_batch_to_run(
                running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
            )
            scheduler.running_batch, batch = plan.running_batch, plan.batch_to_run
        else:
            batch = scheduler.get_next_batch_to_run()
        for name in ("cur_batch", "cur_batch_for_debug"):
            if hasattr(scheduler, name):
                setattr(scheduler, name, batch)
        if batch:
            result = scheduler.run_batch(batch)
            self.results.append((batch.copy() if self.overlap else batch, result))
        # With overlap scheduling, the previous batch's result, late by an iteration.
        if scheduler.last_batch if self.overlap else batch:
            scheduler.process_batch_result(*self.results.popleft())
        scheduler.last_batch = batch

    # State of the engine.

    def check(self):
        """The engine's own memory check: its complaint, or "ok"."""
        scheduler = self.scheduler
        checker = getattr(scheduler, "invariant_checker", scheduler)
        try:
            if not scheduler.last_batch:
                (getattr(scheduler, "on_idle", None) or scheduler.self_check_during_idle)()
            checker.self_check_during_busy()
        except (AssertionError, ValueError) as complaint:
            return " ".join(str(complaint).split())[:160]
        return "ok"

    def inflight(self, session):
        """Return True if the engine treats a turn of the session as in flight."""
        session = self.controller.sessions[session]
        if hasattr(session, "_inflight"):
            return session._inflight
        return any(not node.req.finished() for node in session.req_nodes.values())  # 0.5.10

    def sum(self):
        """Return owned tokens (available, in the tree, in slots), valid while nothing runs."""
        tree = self.cache.evictable_size() + self.cache.protected_size()
        held = sum(
            figure(slot, "kv_allocated_len") - figure(slot, "cache_protected_len")
            for slot in getattr(self.cache, "session", self.cache).slots.values()
            if row(slot) is not None
        )
        return self.allocator.available_size(), tree, held

    def owned(self):
        """Return the tokens of the pool by owner, also while requests run."""
        available, tree, _ = self.sum()
        running = {row(req): req for req in self.running().values() if row(req) is not None}
        slots = getattr(self.cache, "session", self.cache).slots.values()
        idle = [slot for slot in slots if row(slot) is not None and row(slot) not in running]
        return {
            "available": available,
            "tree": tree,
            "slots": sum(map(self._private, idle)),
            "requests": sum(map(self._private, running.values())),
        }

    def _private(self, holder):
        page = self.allocator.page_size
        pages = -(-figure(holder, "kv_allocated_len") // page)
        return pages * page - figure(holder, "cache_protected_len")

    def indices(self, holder):
        """The KV indices of a request or a slot, by position."""
        length = figure(holder, "kv_allocated_len")
        return self.scheduler.req_to_token_pool.req_to_token[row(holder), :length].tolist()

    def unwritten(self, session):
        """Return positions counted as committed by the slot without any KV written."""
        slot, keys = self.slot(session), self.allocator.get_kvcache().k_buffer[0]
        places = self.indices(slot)[: figure(slot, "kv_committed_len")]
        return [position for position, index in enumerate(places) if not keys[index].any()]

    def slot(self, session):
        """Return the slot of a session: the record, in any release."""
        slots = getattr(self.cache, "session", self.cache).slots
        return slots.get(session)

    def history(self, session):
        """Return the first tokens of the next turn's prompt, None before the first turn."""
        session = self.controller.sessions[session]
        if not session.req_nodes:
            return None
        req = next(iter(session.req_nodes.values())).req
        length = getattr(session, "committed_origin_len", None)
        out = req.output_ids[: req.sampling_params.max_new_tokens]
        return [int(x) for x in (*req.origin_input_ids[:length], *out)]

    def running(self):
        scheduler, requests = self.scheduler, {}
        batches = (scheduler.running_batch, scheduler.last_batch)
        chunked = getattr(scheduler, "chunked_req", None)
        for req in [req for batch in batches if batch for req in batch.reqs] + [chunked]:
            if req is not None and not req.finished():
                requests[req.rid] = req
        return requests

    def waiting(self):
        return [req.rid for req in self.scheduler.waiting_queue]

    def show(self):
        """Print the answers to clients, the sessions with their slots, and the owners of memory.

        A session is in flight until its turn is over. The next turn's prompt begins with its
        history. The slot is the memory held between turns.
        """
        print("answers:", self.answers)
        print("tokens that each got:", {rid: len(got) for rid, got in self.tokens.items()})
        print("running:", list(self.running()), "- waiting:", self.waiting())
        for session in self.controller.sessions:
            tokens = len(self.history(session) or ())
            print(f"{session}: in flight {self.inflight(session)}, history of {tokens} tokens")
            slot = self.slot(session)
            if slot is not None and row(slot) is not None:
                lengths = ("cache_protected_len", "kv_committed_len", "kv_allocated_len")
                print("its slot:", {name: figure(slot, name) for name in lengths})
                if not self.window:
                    print("positions committed, and never written:", self.unwritten(session))
        if not self.window:
            owned = self.owned()
            print("tokens, by whose they are:", owned, "in all", sum(owned.values()))
        print("the engine's own check:", self.check())


def words(reason):
    """A finish reason in a line."""
    return ": ".join(filter(None, (reason["type"], reason.get("message"))))


def figure(holder, name):
    """Return a figure of a request's or a slot's KV, in any release."""
    return getattr(holder if hasattr(holder, name) else holder.kv, name)


def row(holder):
    """The row of a request or a slot."""
    return figure(holder, "req_pool_idx")


def build(server):
    ports = PortArgs.init_new(server)
    publish = getattr(scheduler_module, "publish", None)
    ranks = getattr(scheduler_module, "SpawnRanks", None)
    if publish is None:
        importlib.import_module("sglang.srt.server_args").set_global_server_args_for_scheduler(
            server
        )
    elif ranks is None:
        publish(server, role="scheduler")
    else:
        publish(server, role="scheduler", ranks=ranks(world_rank=0, dp_rank=None, gpu_id=0))
    parameters = inspect.signature(scheduler_module.Scheduler.__init__).parameters
    zero = ("gpu_id", "tp_rank", "moe_ep_rank", "pp_rank", "attn_cp_rank", "moe_dp_rank")
    offered = {"server_args": server, "port_args": ports, "dp_rank": None, **dict.fromkeys(zero, 0)}
    return scheduler_module.Scheduler(**{k: v for k, v in offered.items() if k in parameters})


def admit(scheduler, reserve):
    """Set the share of tokens reserved by admission."""
    tracker = getattr(scheduler, "new_token_ratio_tracker", None)
    if tracker is not None:
        tracker.init = tracker.min = tracker.current = reserve
        tracker.decay = 0.0
    else:
        scheduler.init_new_token_ratio = scheduler.min_new_token_ratio = reserve
        scheduler.new_token_ratio, scheduler.new_token_ratio_decay = reserve, 0.0


def draw_weights(scheduler):
    """Draw larger weights than the loader, so that every token depends on its context. The seed is
    fixed: a stop token comes at the same place as when the finding was made."""
    worker = getattr(scheduler.tp_worker, "worker", scheduler.tp_worker)
    generator = torch.Generator().manual_seed(20260101)
    with torch.no_grad():
        for name, weights in sorted(worker.model_runner.model.named_parameters()):
            if "norm" in name:
                weights.fill_(1.0)
            else:
                drawn = torch.randn(weights.shape, generator=generator, dtype=torch.float32)
                weights.copy_(drawn * (weights.shape[-1] ** -0.5) * 2.0)


def slide(window):
    """Make the model's second layer a sliding layer, never the case for Llama in a release."""
    from sglang.srt.configs import model_config
    from sglang.srt.models.llama import LlamaForCausalLM

    model_config.is_hybrid_swa_model = lambda *_, **__: True
    model_config.get_hybrid_layer_ids = lambda *_, **__: ([1], [0])
    LlamaForCausalLM.get_attention_sliding_window_size = lambda _: window


def page_in_torch():
    """Replace a Triton kernel of releases up to 0.5.18, for finding places in pages, on a CPU."""
    from sglang.srt.mem_cache import allocator

    paged = getattr(allocator, "paged", allocator)  # 0.5.10 has a single module for allocators

    def extend(before, lengths, last, free, out, _, page_size, *rest):
        fresh, places = iter(free.tolist()), []
        for start, end, at in zip(before.tolist(), lengths.tolist(), last.tolist(), strict=True):
            place = at
            for position in range(start, end):
                place = place + 1 if position % page_size else next(fresh) * page_size
                places.append(place)
        out[: len(places)] = out.new_tensor(places)

    def decode(lengths, last, free, out, bound, page_size, *rest):
        extend(lengths - 1, lengths, last, free, out, bound, page_size)

    for name, function in (("alloc_extend_kernel", extend), ("alloc_decode_kernel", decode)):
        if hasattr(paged, name):
            setattr(paged, name, {(n,): function for n in range(1, 99)})


def read_through_mapping(scheduler, allocator, window):
    """`torch_native` reads the sliding layer with indices of the full pool."""
    worker = getattr(scheduler.tp_worker, "worker", scheduler.tp_worker)
    worker.model_runner.model.model.layers[1].self_attn.attn.sliding_window_size = window
    pool = allocator.get_kvcache()
    for name in ("get_key_buffer", "get_value_buffer"):

        def buffer(layer_id, read=getattr(pool, name)):
            entries = read(layer_id)
            return entries[allocator.full_to_swa_index_mapping[:-1]] if layer_id == 1 else entries

        setattr(pool, name, buffer)


def main(finding, judged=True):
    """Run a finding, a function that returns the error or None. Exit with 1 or 0, or 2 on a crash.

    A finding that is not ``judged`` prints a state and returns nothing: status 0.
    """
    print(f"SGLang {sglang.__version__}")
    print(f"torch {torch.__version__}, Python {sys.version.partition(' ')[0]}")
    try:
        wrong = finding()
    except BaseException:
        traceback.print_exc()
        status = 2
    else:
        if judged:
            print(f"BUG: {wrong}" if wrong else "not seen")
        status = 1 if wrong else 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # SGLang's threads need not be asked
