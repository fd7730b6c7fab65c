"""Conversion of client commands to the engine's own input messages.

Releases add fields to messages. A required field that the driver does not know is set to None.
"""

from __future__ import annotations

import importlib
import inspect
from array import array
from typing import Any

from slotproof_driver.configuration import by_signature
from slotproof_driver.usage import UsageError

from .boot import VOCAB
from .branching import SESSION, Branches
from .messages import inner_rid
from .options import drawn


class Inputs:
    """Builder of the input messages of the build under test."""

    def __init__(self) -> None:
        self.io: Any = importlib.import_module("sglang.srt.managers.io_struct")
        params = importlib.import_module("sglang.srt.sampling.sampling_params")
        self.sampling_params: Any = params.SamplingParams
        annotation = str(self.io.TokenizedGenerateReqInput.__annotations__.get("input_ids", ""))
        self.takes_array = "array" in annotation
        #: True if requests differ in priority.
        self.differ = False
        #: Two flags: requests ask for logprobs of whole prompts, and for streamed tokens.
        self.logprobs = self.stream = False
        #: Mode of a pause: it decides whether running requests are retracted.
        self.pause = "in_place"
        #: Timeout of sessions in seconds (0: none), and a flag: each session has its own timeout.
        self.timeout, self.own_timeouts = 0, False
        #: Set if the driver sends requests without a session as turns of a session without a slot.
        self.branches: Branches | None = None

    def message(self, command: dict[str, Any]) -> Any:
        """Return the engine's message for a client's command."""
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
            case "flush":  # A flush empties the prefix tree of an idle engine.
                return make(io.FlushCacheReqInput)
            case "pause":
                return make(io.PauseGenerationReqInput, mode=self.pause)
            case "continue":
                return make(io.ContinueGenerationReqInput, torch_empty_cache=False)
        raise UsageError(f"{command['do']}: SGLang has no message for this command")

    def opening(self, session: str, *, timeout: int = 0, streaming: bool = True) -> Any:
        """Return a message that opens a session. ``streaming``: the session gets a slot."""
        return self._make(
            self.io.OpenSessionReqInput,
            capacity_of_str_len=1 << 20,
            session_id=session,
            streaming=streaming,
            timeout=timeout or None,
        )

    def _submit(self, command: dict[str, Any]) -> Any:
        """Return a session's turn or a plain request. Greedy sampling makes tokens repeatable."""
        tokens = [int(token) for token in command["tokens"]]
        for token in (*tokens, *command.get("stop", ())):
            if not 0 < token < VOCAB:
                raise UsageError(f"submit: token {token} is outside 1 … {VOCAB - 1}")
        sampling = self.sampling_params(
            max_new_tokens=int(command["max_new"]),
            temperature=0.0,
            stop_token_ids=[int(token) for token in command.get("stop", ())] or None,
            # The model has no end token, and `ignore_eos` would disable stop tokens.
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
        """Return ``kind(**wanted)``. Fields that ``kind`` lacks are left out. Required fields
        without a value are None."""
        parameters = inspect.signature(kind).parameters.values()
        required = (item.name for item in parameters if item.default is inspect.Parameter.empty)
        return kind(**{**dict.fromkeys(required), **by_signature(kind, wanted)})
