"""Real vLLM scheduler on a CPU, stepped by hand: no weights, no worker, no sockets.

For the scripts in this folder. Serves 0.15.0 to 0.33.0. All results shown by a script are read from
the engine's own objects. The methods below only build its inputs, and replace its worker.
"""

import dataclasses
import inspect
import logging
import os
import pathlib
import sys
import traceback
import warnings

for name, value in {
    "OMP_NUM_THREADS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}.items():
    os.environ.setdefault(name, value)

import torch
import torch._inductor.runtime.triton_compat  # before the stubs, which would be mistaken for Triton
import torch.utils._triton

torch.set_num_threads(1)
warnings.simplefilter("ignore")  # of absent packages, also logged by vLLM
logging.disable()
torch.utils._triton.has_triton_package()
torch.utils._triton.has_triton()

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
from stubs import install

install(
    (
        "aiohttp",
        "cachetools",
        "cbor2",
        "cloudpickle",
        "cpuinfo",
        "diskcache",
        "fastapi",
        "gguf",
        "llguidance",
        "mistral_common",
        "openai",
        "openai_harmony",
        "partial_json_parser",
        "prometheus_client",
        "pybase64",
        "uvloop",
        "xgrammar",
    )
)

import vllm
from vllm.config import CacheConfig, DeviceConfig, SchedulerConfig, SpeculativeConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

kv_cache_utils.init_none_hash(sha256)


class Model:
    """Properties of a model read by the scheduler: a text generator, and None for the rest."""

    skip_tokenizer_init, runner_type, architecture, architectures = True, "generate", "none", ()
    is_multimodal_model = supports_multimodal_inputs = is_encoder_decoder = is_diffusion = False
    enable_return_routed_experts = return_sampling_mask = uses_mrope = False

    def __init__(self, context):
        self.max_model_len = context

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)


def call(function, like=None, **offered):
    """Call ``function`` with arguments present in this release, by the signature of ``like``."""
    taken = inspect.signature(like or function).parameters
    return function(**{name: value for name, value in offered.items() if name in taken})


def speculative(drafts, method):
    """Speculative decoding, without a model to look into."""
    made = object.__new__(SpeculativeConfig)
    for field in dataclasses.fields(SpeculativeConfig):
        factory = field.default_factory
        value = field.default if factory is dataclasses.MISSING else factory()
        value = getattr(value, "default", value)  # of pydantic
        object.__setattr__(made, field.name, None if value is dataclasses.MISSING else value)
    object.__setattr__(made, "method", method)
    object.__setattr__(made, "num_speculative_tokens", drafts)
    return made


class Engine:
    """A scheduler. `answers` has the final answer for each finished request, `tokens` the tokens
    sent to its client. `late` has tokens sent when no request waited. `kv` has the token whose KV
    the worker wrote to each (block, offset).

    `drafts` tokens are proposed in every round, all of them correct. With `ahead`, a batch is
    scheduled before the previous output is processed (asynchronous scheduling). With `stages`, the
    worker is a pipeline with as many batches under way. With `priority`, a request has the priority
    sent with the request, the least being the most important."""

    def __init__(
        self,
        tokens=64,
        block_size=1,
        running=4,
        context=48,
        drafts=0,
        method="ngram",
        ahead=False,
        priority=False,
        chunk=0,
        stages=1,
    ):
        self.size, self.kv, self.worker = block_size, {}, {}
        self.answers, self.tokens, self.turns, self.sent = {}, {}, {}, 0
        self.drafts, self.ahead, self.under_way, self.late = drafts, ahead, [], []
        self.batches = max(stages, 1 + ahead)
        budget = chunk or 2 * context * running
        config = VllmConfig(
            device_config=DeviceConfig("cpu"),
            scheduler_config=call(
                SchedulerConfig,
                max_num_seqs=running,
                max_num_batched_tokens=max(budget, running, context),
                max_model_len=context,
                enable_chunked_prefill=True,
                is_encoder_decoder=False,
                async_scheduling=False,
            ),
            cache_config=CacheConfig(block_size=block_size),
        )
        # Without a model, vLLM decides some of these fields itself.
        config.cache_config.enable_prefix_caching = True
        config.cache_config.block_size = block_size
        config.cache_config.num_gpu_blocks = tokens // block_size + 1  # and the null block
        config.scheduler_config.async_scheduling = ahead
        config.parallel_config.pipeline_parallel_size = stages
        if priority:
            config.scheduler_config.policy = "priority"
        if drafts:
            object.__setattr__(config, "speculative_config", speculative(drafts, method))
        config.scheduler_config.max_num_batched_tokens = budget
        object.__setattr__(config, "model_config", Model(context))
        attention = FullAttentionSpec(
            block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32
        )
        made = AsyncScheduler if ahead else Scheduler
        self.scheduler = call(
            made,
            Scheduler,
            vllm_config=config,
            kv_cache_config=KVCacheConfig(
                num_blocks=tokens // block_size + 1,
                kv_cache_tensors=[],
                kv_cache_groups=[KVCacheGroupSpec(["layer"], attention)],
            ),
            structured_output_manager=StructuredOutputManager(config),
            block_size=block_size,
            hash_block_size=block_size,
        )
        self.pool = self.scheduler.kv_cache_manager.block_pool
        self.hasher = kv_cache_utils.get_request_block_hasher(block_size, sha256)

    # Commands of clients, which arrive at once.

    def submit(self, rid, tokens, max_new, session=None, stop=(), priority=0):
        """Send a plain request, or a turn: a resumable request with the session's ID."""
        key = session or rid
        self.turns.setdefault(key, []).append(rid)
        self._send(key, tokens, max_new, session is not None, stop, priority)

    def close(self, session):
        """As `AsyncLLM` ends a session when the stream of inputs is over."""
        self._send(session, [0], 1, False)

    def abort(self, key):
        self.scheduler.finish_requests(key, RequestStatus.FINISHED_ABORTED)

    def flush_all(self):
        """As `POST /reset_prefix_cache?reset_running_requests=true`."""
        self.scheduler.reset_prefix_cache(reset_running_requests=True)

    def _send(self, key, tokens, max_new, resumable, stop=(), priority=0):
        self.sent += 1
        sampling = SamplingParams(max_tokens=max_new, ignore_eos=True, stop_token_ids=list(stop))
        self.scheduler.add_request(
            call(
                Request,
                request_id=key,
                prompt_token_ids=list(tokens),
                sampling_params=sampling,
                pooling_params=None,
                eos_token_id=None,
                arrival_time=float(self.sent),
                block_hasher=self.hasher,
                resumable=resumable,
                priority=priority,
            )
        )

    # Iterations of the engine's loop: `EngineCore.step`, or `step_with_batch_queue`.

    def step(self, count=1):
        for _ in range(count):
            self._iterate()

    def _iterate(self):
        if self.scheduler.has_requests():
            batch = self.scheduler.schedule()
            self.under_way.append((batch, self._execute(batch)))
            if len(self.under_way) < self.batches:
                return
        if self.under_way:
            self._process(*self.under_way.pop(0))

    def _execute(self, batch):
        self._update(batch)
        drafts = batch.scheduled_spec_decode_tokens
        count = batch.num_scheduled_tokens
        return {key: self._run(key, count[key], drafts.get(key, ())) for key in count}

    def _process(self, batch, sampled):
        output = call(
            ModelRunnerOutput,
            req_ids=list(sampled),
            req_id_to_index={key: index for index, key in enumerate(sampled)},
            sampled_token_ids=[list(tokens) for tokens in sampled.values()],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        for told in self.scheduler.update_from_output(batch, output).values():
            for answer in told.outputs:
                if not self.turns[answer.request_id]:  # up to 0.25.0: of a finished turn
                    self.late.extend(answer.new_token_ids)
                    continue
                rid = self.turns[answer.request_id][0]
                self.tokens.setdefault(rid, []).extend(answer.new_token_ids)
                if answer.finish_reason is not None:
                    self.answers[rid] = answer.finish_reason.name.lower()
                    self.turns[answer.request_id].pop(0)
        if self.drafts and not self.ahead:
            proposed = {key: self._follow(key) for key in sampled}
            ids = DraftTokenIds(list(proposed), list(proposed.values()))
            self.scheduler.update_draft_token_ids(ids)

    # The worker: tokens and block table of each request, as sent by the scheduler.

    def _update(self, batch):
        for key in batch.finished_req_ids:
            self.worker.pop(key, None)
        for new in batch.scheduled_new_reqs:
            tokens = getattr(new, "prefill_token_ids", None) or new.prompt_token_ids
            self.worker[new.req_id] = [
                list(tokens),
                list(new.block_ids[0]),
                new.num_computed_tokens,
            ]
        cached = batch.scheduled_cached_reqs
        for index, key in enumerate(cached.req_ids):
            state, blocks = self.worker[key], cached.new_block_ids[index]
            state[2] = cached.num_computed_tokens[index]
            if key in cached.resumed_req_ids:
                state[0], state[1] = list(cached.all_token_ids.get(key, state[0])), []
            state[1].extend(blocks[0] if blocks else ())

    def _run(self, key, count, drafts):
        """Write the KV of the scheduled tokens. The next token depends on all KV read, and a draft
        is accepted if equal to the next token."""
        tokens, blocks, computed = self.worker[key]
        end, read, sampled = computed + count, 0, []
        given = [*tokens[: end - len(drafts)], *drafts]
        whole = end - len(drafts) >= len(tokens)  # otherwise a chunk
        for position in range(end):
            if position >= len(blocks) * self.size:
                raise NoBlock(f"{key}: position {position} is beyond its {len(blocks)} blocks")
            place = blocks[position // self.size], position % self.size
            if position >= computed:
                self.kv[place] = given[position]
            read = follows(read, self.kv.get(place, 0))
            accepted = not sampled or given[position] == sampled[-1]
            if whole and accepted and position >= len(tokens) - 1 + len(sampled):
                sampled.append(1 + read)
        tokens.extend(sampled)
        return sampled

    def _follow(self, key):
        """Return the tokens proposed by a perfect drafter."""
        tokens, read = self.worker[key][0], 0
        for token in tokens:
            read = follows(read, token)
        proposed = []
        while len(proposed) < self.drafts:
            proposed.append(1 + read)
            read = follows(read, proposed[-1])
        return proposed

    # State of the engine.

    def free(self):
        """Return the number of tokens a request could get."""
        return self.pool.get_num_free_blocks() * self.size

    def blocks(self, key):
        """The block table of a request, by the scheduler's own objects."""
        (group,) = self.scheduler.kv_cache_manager.coordinator.single_type_managers
        return [block.block_id for block in group.req_to_blocks.get(key, ())]

    def reads(self, key):
        """Return, by position, the tokens whose KV is at the places in a request's block table."""
        places = [(block, offset) for block in self.blocks(key) for offset in range(self.size)]
        return [self.kv.get(place) for place in places]

    def status(self, key):
        request = self.scheduler.requests.get(key)
        return "gone" if request is None else request.status.name

    def waiting(self):
        """Return the unanswered requests and turns, while nothing runs."""
        return [rid for rids in self.turns.values() for rid in rids]

    def show(self):
        """Print the answers to clients, the requests' states, and the number of free tokens."""
        print("answers:", self.answers)
        print("tokens that each got:", {rid: len(got) for rid, got in self.tokens.items()})
        print("waiting:", self.waiting(), "- free tokens:", self.free())
        for key in self.turns:
            print(f"{key}: {self.status(key)}, blocks {self.blocks(key)}")


def follows(read, token):
    """Return the digest of all KV read so far, extended by a token."""
    return (31 * read + token) % 199


class NoBlock(IndexError):
    """The scheduler has the worker write KV without a block."""


def main(finding, judged=True):
    """Run a finding, a function that returns the error or None. Exit with 1 or 0, or 2 on a crash.

    A finding that is not ``judged`` prints a state and returns nothing: status 0.
    """
    print(f"vLLM {vllm.__version__}")
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
    os._exit(status)
