"""Commands as the engine's own input messages.

The fields of those messages grow from release to release. What a message asks for and
the driver does not know is given as None.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from array import array
from typing import Any

from slotproof_driver.usage import UsageError

from .boot import VOCAB
from .branching import SESSION, Branches
from .messages import inner_rid
from .options import drawn


class Inputs:
    """Builds the input messages of the build under test."""

    def __init__(self) -> None:
        self.io: Any = importlib.import_module("sglang.srt.managers.io_struct")
        params = importlib.import_module("sglang.srt.sampling.sampling_params")
        self.sampling_params: Any = params.SamplingParams
        annotation = str(self.io.TokenizedGenerateReqInput.__annotations__.get("input_ids", ""))
        self.takes_array = "array" in annotation
        #: Requests differ in importance.
        self.differ = False
        #: They ask for the logprobs of whole prompts; or for tokens as they come, 1 to 3 at a time.
        self.logprobs = self.stream = False
        #: What a pause does with those that run.
        self.pause = "in_place"
        #: Seconds; a session's timeout of 0 is none. Sessions have timeouts of their own.
        self.timeout, self.own_timeouts = 0, False
        #: Where requests without a session are turns of one that keeps no slot.
        self.branches: Branches | None = None

    def message(self, command: dict[str, Any]) -> Any:
        """What the engine is sent for a client's command."""
        make, io = self._make, self.io
        match command["do"]:
            case "submit":
                return self._submit(command)
            case "open":
                own = 1 + drawn(command["session"]) if self.own_timeouts else 1
                return self.opening(command["session"], timeout=self.timeout * own)
            case "close":
                return make(io.CloseSessionReqInput, session_id=command["session"])
            case "abort":
                return make(io.AbortReq, rid=inner_rid(command["rid"]))
            case "abort_all":
                return make(io.AbortReq, rid="", abort_all=True)
            case "flush":  # empties the prefix tree, if the engine finds itself idle
                return make(io.FlushCacheReqInput)
            case "pause":
                return make(io.PauseGenerationReqInput, mode=self.pause)
            case "continue":
                return make(io.ContinueGenerationReqInput, torch_empty_cache=False)
        raise UsageError(f"{command['do']} is no message of the engine's")

    def opening(self, session: str, *, timeout: int = 0, streaming: bool = True) -> Any:
        """An open. ``streaming``: the session keeps a slot."""
        return self._make(
            self.io.OpenSessionReqInput,
            capacity_of_str_len=1 << 20,
            session_id=session,
            streaming=streaming,
            timeout=timeout or None,
        )

    def _submit(self, command: dict[str, Any]) -> Any:
        """A turn of a session, or a plain request; greedy, so that tokens are determined."""
        tokens = [int(token) for token in command["tokens"]]
        for token in (*tokens, *command.get("stop", ())):
            if not 0 < token < VOCAB:
                raise UsageError(f"submit: token {token} is outside 1 … {VOCAB - 1}")
        sampling = self.sampling_params(
            max_new_tokens=int(command["max_new"]),
            temperature=0.0,
            stop_token_ids=[int(token) for token in command.get("stop", ())] or None,
            # The model has no end token, and with `ignore_eos` stop tokens go unheard.
            ignore_eos=False,
            stream_interval=1 + drawn(command["rid"]) if self.stream else None,
        )
        sampling.normalize(None)
        session = command.get("session")
        extra: dict[str, Any] = {}
        if session is not None:
            extra["session_params"] = self._make(self.io.SessionParams, id=session)
        elif self.branches is not None:
            tokens, fields = self.branches.turn(command["rid"], tokens)
            extra["session_params"] = self._make(self.io.SessionParams, id=SESSION, **fields)
        return self._make(
            self.io.TokenizedGenerateReqInput,
            rid=inner_rid(command["rid"]),
            input_text="",
            input_ids=array("q", tokens) if self.takes_array else tokens,
            mm_inputs=None,
            sampling_params=sampling,
            return_logprob=self.logprobs,
            logprob_start_len=0 if self.logprobs else -1,
            top_logprobs_num=0,
            token_ids_logprob=None,
            stream=self.stream,
            priority=drawn(command["rid"]) if self.differ else None,
            **extra,
        )

    @staticmethod
    def _make(kind: Any, **wanted: Any) -> Any:
        """``kind(**wanted)``, less what it doesn't know, None for what else it requires."""
        parameters = inspect.signature(kind).parameters
        if dataclasses.is_dataclass(kind):
            names = {field.name for field in dataclasses.fields(kind)}
        else:
            names = set(getattr(kind, "__struct_fields__", parameters))
        given = {k: v for k, v in wanted.items() if k in names}
        for name, parameter in parameters.items():
            if parameter.default is inspect.Parameter.empty and name not in given:
                given[name] = None
        return kind(**given)
