------------------------------ MODULE Slotproof ------------------------------
EXTENDS Integers

(* The accounting of a session slot's KV in an LLM serving engine.
   Generated from slotproof's model/ by `slotproof docs`: do not
   edit. Lengths and figures are tokens. One session with its slot and
   turn, or one request without a session, is written out; all other actors
   are the constants frame_*, which no step changes. *)

CONSTANTS
  P, Tokens, has_swa, W, width, reserve, aligned_reuse, retract_keeps,
  abort_publishes, overlap, loan_publishes, keeps_slack, full_total,
  swa_total, rows_total, frame_held, frame_uncached, frame_swa_held,
  frame_swa_uncached, frame_rows, frame_lock_max, frame_lock_sum

VARIABLES
  full_available, full_evictable, full_protected, swa_available,
  swa_evictable, swa_protected, rows_free, session_open, session_closing,
  session_inflight, session_history, slot_holding, slot_lent, slot_row,
  slot_C, slot_A, slot_Q, slot_E, slot_locked, req_kind, req_phase,
  req_prompt, req_output, req_row, req_C, req_A, req_Q, req_E, req_locked

Pools == <<full_available, full_evictable, full_protected>>
SwaPool == <<swa_available, swa_evictable, swa_protected>>
Rows == <<rows_free>>
Session == <<session_open, session_closing, session_inflight, session_history>>
Slot == <<slot_holding, slot_lent, slot_row, slot_C, slot_A, slot_Q,
          slot_E, slot_locked>>
Request == <<req_kind, req_phase, req_prompt, req_output, req_row, req_C,
             req_A, req_Q, req_E, req_locked>>
vars == <<Pools, SwaPool, Rows, Session, Slot, Request>>

------------------------------------------------------------------------------
(* Words *)

KindNone == 0
KindTurn == 1
KindPlain == 2
PhaseAbsent == 0
PhaseWaiting == 1
PhaseMatched == 2
PhaseParked == 3
PhaseRunning == 4
NoRow == -1

Min(a, b) == IF a <= b THEN a ELSE b
Max(a, b) == IF a >= b THEN a ELSE b
IfSwa(n) == IF has_swa THEN n ELSE 0
Floor(x) == (x \div P) * P
Ceil(x) == Floor(x + P - 1)
Aligned(x) == Floor(x) = x
\* keep n positions; inside a page that has given back its window's KV, whole pages
Cut(n, E) == IF E <= n THEN n ELSE Floor(n)

------------------------------------------------------------------------------
(* Terms with a name *)

\* tokens that the slot's row owns
SlotPrivate ==
  Ceil(slot_A) - slot_Q

\* tokens that the slot's row owns in the sliding-window pool
SlotPrivateSwa ==
  IfSwa(Ceil(slot_A) - Max(slot_Q, slot_E))

\* tokens of the tree that the slot itself locks
SlotLocks ==
  IF slot_locked THEN slot_Q ELSE 0

\* tokens that the req's row owns
ReqPrivate ==
  Ceil(req_A) - req_Q

\* tokens that the req's row owns in the sliding-window pool
ReqPrivateSwa ==
  IfSwa(Ceil(req_A) - Max(req_Q, req_E))

\* tokens of the tree that the req itself locks
ReqLocks ==
  IF req_locked THEN req_Q ELSE 0

\* tokens that the request knows
Known ==
  req_prompt + req_output

\* the request is matched, parked or running
HasKv ==
  PhaseMatched <= req_phase

\* the request is running, or parked between two chunks
Begun ==
  \/ req_phase = PhaseRunning
  \/ req_phase = PhaseParked

\* slot and request describe the same KV
OnLoan ==
  /\ HasKv
  /\ slot_holding
  /\ req_kind = KindTurn
  /\ req_row = slot_row

\* the request, or its lent slot, has a tree lock
LocksTree ==
  \/ req_locked
  \/ slot_lent /\ slot_locked

\* how many tokens that locks
LocksEither ==
  IF LocksTree THEN req_Q ELSE 0

\* to how much a restore cuts the slot's KV
Reusable ==
  IF aligned_reuse THEN Floor(Min(slot_C, Known - reserve)) ELSE Min(slot_C, Known - reserve)

\* private tokens of a slot that is not on loan
Held ==
  IF slot_holding /\ ~slot_lent THEN SlotPrivate ELSE 0

\* private tokens of a request that has KV
Uncached ==
  IF HasKv THEN ReqPrivate ELSE 0

\* the same of the sliding-window pool
SwaHeld ==
  IF slot_holding /\ ~slot_lent THEN SlotPrivateSwa ELSE 0

\* the same of the sliding-window pool
SwaUncached ==
  IF HasKv THEN ReqPrivateSwa ELSE 0

\* rows of the slot
SlotRows ==
  IF slot_holding THEN 1 ELSE 0

\* rows of the request, without one on loan
ReqRows ==
  IF HasKv /\ ~slot_lent /\ req_row # NoRow THEN 1 ELSE 0

\* prefixes that slot and request lock, added up
LockSum ==
  SlotLocks + ReqLocks

\* the longer of them
LockMax ==
  Max(SlotLocks, ReqLocks)

\* the actor has KV: its request, or its slot
ActorHasKv ==
  \/ slot_holding
  \/ HasKv

\* committed of that KV
OwnC ==
  IF HasKv THEN req_C ELSE slot_C

\* what of it is allocated
OwnA ==
  IF HasKv THEN req_A ELSE slot_A

\* its protected prefix
OwnQ ==
  IF HasKv THEN req_Q ELSE slot_Q

\* its cursor
OwnE ==
  IF HasKv THEN req_E ELSE slot_E

\* somebody's lock covers the arbitrary page
Pinned(page_pin, page_pins) ==
  \/ page_pin
  \/ 0 < page_pins

\* the row owns the arbitrary page, full pool
OwnsFull(page_here, page_at) ==
  /\ page_here
  /\ \/ slot_holding /\ ~slot_lent /\ slot_Q <= page_at /\ page_at < Ceil(slot_A)
     \/ HasKv /\ req_Q <= page_at /\ page_at < Ceil(req_A)

\* how often slot and request have the arbitrary row
OwnsRow(line_number) ==
  (IF slot_holding /\ slot_row = line_number THEN 1 ELSE 0) + (IF HasKv /\ ~slot_lent /\ req_row = line_number THEN 1 ELSE 0)

\* the same of the sliding-window pool
OwnsSwa(page_here, page_at) ==
  /\ has_swa
  /\ page_here
  /\ \/ slot_holding /\ ~slot_lent /\ Max(slot_Q, slot_E) <= page_at /\ page_at < Ceil(slot_A)
     \/ HasKv /\ Max(req_Q, req_E) <= page_at /\ page_at < Ceil(req_A)

------------------------------------------------------------------------------
(* Transitions *)

(* T-OPEN. A client opens a session: empty history, no slot, nothing in
   flight. *)
T_OPEN ==
  \* guard: closed
  /\ ~session_open
  /\ req_kind = KindNone
  \* effect
  /\ session_open' = TRUE
  /\ session_closing' = FALSE
  /\ session_inflight' = FALSE
  /\ session_history' = 0
  /\ UNCHANGED <<Pools, SwaPool, Rows, Slot, Request>>

(* T-CLOSE. A session with nothing in flight is closed: its slot is
   released at once. *)
T_CLOSE(u, swa_u) ==
  \* guard: open
  /\ session_open
  /\ ~session_closing
  \* guard: idle
  /\ ~session_inflight
  \* guard: u
  /\ 0 <= u /\ u <= SlotLocks
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - SlotLocks
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(SlotLocks)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u /\ swa_protected - swa_u <= frame_lock_sum + LockSum - SlotLocks
  \* effect
  /\ slot_holding' = FALSE
  /\ slot_lent' = FALSE
  /\ slot_row' = NoRow
  /\ slot_C' = 0
  /\ slot_A' = 0
  /\ slot_Q' = 0
  /\ slot_E' = 0
  /\ slot_locked' = FALSE
  /\ session_open' = FALSE
  /\ session_closing' = FALSE
  /\ session_history' = 0
  /\ full_available' = full_available + Max(0, SlotPrivate)
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(slot_A) - Max(slot_Q, slot_E)))
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, SlotRows)
  /\ UNCHANGED <<session_inflight, Request>>

(* T-CLOSE-DEFER. A close that finds a turn in flight waits for it; no new
   turn is taken. #21875 *)
T_CLOSE_DEFER ==
  \* guard: open
  /\ session_open
  /\ ~session_closing
  \* guard: busy
  /\ session_inflight
  \* effect
  /\ session_closing' = TRUE
  /\ UNCHANGED <<Pools, SwaPool, Rows, session_open, session_inflight, session_history,
                  Slot, Request>>

(* T-REAP. A deferred close happens, or an idle session times out (time is
   environment). *)
T_REAP(u, swa_u) ==
  \* guard: open
  /\ session_open
  \* guard: idle
  /\ ~session_inflight
  \* guard: u
  /\ 0 <= u /\ u <= SlotLocks
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - SlotLocks
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(SlotLocks)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u /\ swa_protected - swa_u <= frame_lock_sum + LockSum - SlotLocks
  \* effect
  /\ slot_holding' = FALSE
  /\ slot_lent' = FALSE
  /\ slot_row' = NoRow
  /\ slot_C' = 0
  /\ slot_A' = 0
  /\ slot_Q' = 0
  /\ slot_E' = 0
  /\ slot_locked' = FALSE
  /\ session_open' = FALSE
  /\ session_closing' = FALSE
  /\ session_history' = 0
  /\ full_available' = full_available + Max(0, SlotPrivate)
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(slot_A) - Max(slot_Q, slot_E)))
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, SlotRows)
  /\ UNCHANGED <<session_inflight, Request>>

(* T-SUBMIT. A turn is queued: its prompt is the history and new tokens; it
   is now in flight. *)
T_SUBMIT(new) ==
  \* guard: open
  /\ session_open
  /\ ~session_closing
  \* guard: idle
  /\ ~session_inflight
  \* guard: nonempty
  /\ 0 <= new
  /\ 1 <= session_history + new
  \* effect
  /\ req_kind' = KindTurn
  /\ req_phase' = PhaseWaiting
  /\ req_prompt' = session_history + new
  /\ req_output' = 0
  /\ session_inflight' = TRUE
  /\ UNCHANGED <<Pools, SwaPool, Rows, session_open, session_closing, session_history,
                  Slot, req_row, req_C, req_A, req_Q, req_E, req_locked>>

(* T-REJECT. A turn while one is in flight becomes a stub: turn, slot and
   history stay as they are. #22790 *)
T_REJECT(prompt) ==
  \* guard: open
  /\ session_open
  \* guard: busy
  /\ session_inflight \/ session_closing
  \* guard: prompt
  /\ 0 <= prompt
  /\ UNCHANGED <<Pools, SwaPool, Rows, Session, Slot, Request>>
  \* a request goes on alone, another actor: stub

(* T-DOOM. A turn known to be aborted leaves its session before it is
   matched; the slot is untouched. #22273, #22790 *)
T_DOOM(prompt) ==
  \* guard: turn
  /\ req_kind = KindTurn
  \* guard: waiting
  /\ req_phase = PhaseWaiting
  \* guard: covered
  /\ (slot_holding => slot_C <= session_history)
  \* guard: prompt
  /\ 0 <= prompt
  \* effect
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ session_inflight' = FALSE
  /\ UNCHANGED <<Pools, SwaPool, Rows, session_open, session_closing, session_history, Slot>>
  \* a request goes on alone, another actor: doomed

(* T-PLAIN-SUBMIT. A request without a session is queued. *)
T_PLAIN_SUBMIT(prompt) ==
  \* guard: new
  /\ req_kind = KindNone
  \* guard: no_session
  /\ ~session_open
  /\ ~session_inflight
  \* guard: nonempty
  /\ 1 <= prompt
  \* effect
  /\ req_kind' = KindPlain
  /\ req_phase' = PhaseWaiting
  /\ req_prompt' = prompt
  /\ req_output' = 0
  /\ UNCHANGED <<Pools, SwaPool, Rows, Session, Slot, req_row, req_C, req_A, req_Q, req_E,
                  req_locked>>

(* T-MATCH. A request without a slot to restore locks what the tree has of
   its prompt: Q = m; in the sliding-window pool, at least its window. *)
T_MATCH(m, u, swa_u) ==
  \* guard: waiting
  /\ req_phase = PhaseWaiting
  \* guard: no_slot
  /\ req_kind = KindPlain \/ (req_kind = KindTurn /\ ~slot_holding)
  \* guard: m
  /\ 0 <= m /\ m <= Known - reserve
  /\ Aligned(m)
  /\ m <= width
  \* guard: u
  /\ 0 <= u /\ u <= m /\ m <= full_protected + u
  /\ Aligned(u)
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(m)
  /\ Aligned(swa_u)
  \* guard: window
  /\ IfSwa(m - Floor(Max(0, m - W))) <= swa_protected + swa_u
  \* guard: full_evictable
  /\ Max(0, u) <= full_evictable
  \* guard: swa_evictable
  /\ IfSwa(Max(0, swa_u)) <= swa_evictable
  \* effect
  /\ req_phase' = PhaseMatched
  /\ req_C' = m
  /\ req_A' = m
  /\ req_Q' = m
  /\ req_E' = 0
  /\ req_locked' = TRUE
  /\ full_evictable' = full_evictable - Max(0, u)
  /\ full_protected' = full_protected + Max(0, u)
  /\ swa_evictable' = swa_evictable - IfSwa(Max(0, swa_u))
  /\ swa_protected' = swa_protected + IfSwa(Max(0, swa_u))
  /\ UNCHANGED <<full_available, swa_available, Rows, Session, Slot, req_kind, req_prompt,
                  req_output, req_row>>

(* T-RESTORE. The slot's KV goes on loan to its turn, after free_tail cut
   it to what is reusable: whole pages past that are freed. #20070, #20476,
   #22213, #22862, #32163 *)
T_RESTORE ==
  \* guard: turn
  /\ req_kind = KindTurn
  /\ req_phase = PhaseWaiting
  \* guard: holding
  /\ slot_holding
  \* guard: not_lent
  /\ ~slot_lent
  \* guard: prefix
  /\ slot_Q <= Reusable
  \* guard: window
  /\ Min(slot_E, Cut(Reusable, slot_E)) <= Max(0, Cut(Reusable, slot_E) - W)
  \* effect
  /\ slot_C' = Min(slot_C, Cut(Reusable, slot_E))
  /\ slot_A' = Min(slot_A, IF keeps_slack /\ slot_E <= Reusable THEN slot_A ELSE Cut(Reusable, slot_E))
  /\ slot_E' = Min(slot_E, Cut(Reusable, slot_E))
  /\ req_C' = Min(slot_C, Cut(Reusable, slot_E))
  /\ req_A' = Min(slot_A, IF keeps_slack /\ slot_E <= Reusable THEN slot_A ELSE Cut(Reusable, slot_E))
  /\ req_E' = Min(slot_E, Cut(Reusable, slot_E))
  /\ req_row' = slot_row
  /\ req_Q' = slot_Q
  /\ req_locked' = FALSE
  /\ slot_lent' = TRUE
  /\ req_phase' = PhaseMatched
  /\ full_available' = full_available + Max(0, Ceil(slot_A) - Ceil(IF keeps_slack /\ slot_E <= Reusable THEN slot_A ELSE Cut(Reusable, slot_E)))
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(slot_A) - Max(Ceil(IF keeps_slack /\ slot_E <= Reusable THEN slot_A ELSE Cut(Reusable, slot_E)), slot_E)))
  /\ UNCHANGED <<full_evictable, full_protected, swa_evictable, swa_protected, Rows,
                  Session, slot_holding, slot_row, slot_Q, slot_locked, req_kind,
                  req_prompt, req_output>>

(* T-DISCARD. The slot is released while the session stays open: memory
   pressure, no reusable prefix, or a lost window. *)
T_DISCARD(u, swa_u) ==
  \* guard: holding
  /\ slot_holding
  \* guard: not_lent
  /\ ~slot_lent
  \* guard: u
  /\ 0 <= u /\ u <= SlotLocks
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - SlotLocks
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(SlotLocks)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u /\ swa_protected - swa_u <= frame_lock_sum + LockSum - SlotLocks
  \* effect
  /\ slot_holding' = FALSE
  /\ slot_lent' = FALSE
  /\ slot_row' = NoRow
  /\ slot_C' = 0
  /\ slot_A' = 0
  /\ slot_Q' = 0
  /\ slot_E' = 0
  /\ slot_locked' = FALSE
  /\ full_available' = full_available + Max(0, SlotPrivate)
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(slot_A) - Max(slot_Q, slot_E)))
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, 1)
  /\ UNCHANGED <<Session, Request>>

(* T-REFUSE. No budget for a matched request this time: it waits again, the
   slot is as free_tail left it, nothing is on loan; without a slot the
   lock is dropped. #20476, #22753 *)
T_REFUSE(u, swa_u) ==
  \* guard: matched
  /\ req_phase = PhaseMatched
  \* guard: u
  /\ 0 <= u /\ u <= ReqLocks
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - ReqLocks
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(ReqLocks)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u /\ swa_protected - swa_u <= frame_lock_sum + LockSum - ReqLocks
  \* effect
  /\ req_phase' = PhaseWaiting
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ slot_lent' = FALSE
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ UNCHANGED <<full_available, swa_available, Rows, Session, slot_holding, slot_row,
                  slot_C, slot_A, slot_Q, slot_E, slot_locked, req_kind, req_prompt,
                  req_output>>

(* T-EXTEND. Prefill up to position t; when nothing is left to prefill one
   token may be sampled. *)
T_EXTEND(t, sampled, row) ==
  \* guard: matched
  /\ req_phase = PhaseMatched \/ req_phase = PhaseParked
  \* guard: t
  /\ req_C <= t /\ t <= Known
  /\ t <= width
  \* guard: sampled
  /\ 0 <= sampled /\ sampled <= 1
  /\ (sampled = 1 => t = Known)
  \* guard: row
  /\ 0 <= row
  /\ (req_row # NoRow => row = req_row)
  \* guard: a_row
  /\ Max(0, IF req_row = NoRow THEN 1 ELSE 0) <= rows_free
  \* guard: full_available
  /\ Max(0, Ceil(t) - Ceil(req_A)) <= full_available
  \* guard: swa_available
  /\ IfSwa(Max(0, Ceil(t) - Ceil(req_A))) <= swa_available
  \* effect
  /\ req_phase' = PhaseRunning
  /\ req_output' = req_output + sampled
  /\ req_row' = row
  /\ req_C' = t
  /\ req_A' = Max(req_A, t)
  /\ rows_free' = rows_free - Max(0, IF req_row = NoRow THEN 1 ELSE 0)
  /\ full_available' = full_available - Max(0, Ceil(t) - Ceil(req_A))
  /\ swa_available' = swa_available - IfSwa(Max(0, Ceil(t) - Ceil(req_A)))
  /\ UNCHANGED <<full_evictable, full_protected, swa_evictable, swa_protected, Session,
                  Slot, req_kind, req_prompt, req_Q, req_E, req_locked>>

(* T-PARK. Between two chunks of its prefill a request is parked: in no
   batch, but it keeps its KV. #37502 *)
T_PARK ==
  \* guard: running
  /\ req_phase = PhaseRunning
  \* guard: unfinished
  /\ req_C < Known
  \* effect
  /\ req_phase' = PhaseParked
  /\ UNCHANGED <<Pools, SwaPool, Rows, Session, Slot, req_kind, req_prompt, req_output,
                  req_row, req_C, req_A, req_Q, req_E, req_locked>>

(* T-INSERT. Valid KV of a request without a slot is shared up to q: where
   the tree has these tokens already, the row's pages are freed and it
   points to the tree's; the rest becomes the tree's. [0, q) is locked, in
   the sliding-window pool at least its window. Where loans publish, so is
   that of a turn that has its slot on loan: the slot then describes the
   same KV as the turn. *)
T_INSERT(q, dup, swa_dup, u, swa_u, swa_x) ==
  \* guard: begun
  /\ Begun
  \* guard: not_lent
  /\ (slot_lent => loan_publishes)
  \* guard: q
  /\ req_Q <= q /\ q <= Floor(Min(req_C, Known))
  /\ Aligned(q)
  \* guard: dup
  /\ 0 <= dup /\ dup <= q - req_Q
  /\ Aligned(dup)
  \* guard: swa_dup
  /\ 0 <= swa_dup /\ swa_dup <= Max(0, req_Q + dup - Max(req_Q, req_E))
  /\ Aligned(swa_dup)
  \* guard: u
  /\ q - req_Q - dup <= u /\ u <= q - req_Q
  /\ Aligned(u)
  \* guard: protects
  /\ q <= full_protected + u
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(q)
  /\ Aligned(swa_u)
  \* guard: swa_x
  /\ 0 <= swa_x /\ swa_x <= IfSwa(req_Q)
  /\ Aligned(swa_x)
  \* guard: swa_bounded
  /\ swa_x <= swa_protected
  /\ swa_protected - swa_x + swa_u <= frame_lock_sum + q
  \* guard: full_evictable
  /\ Max(0, u) <= full_evictable + Max(0, q - (req_Q + dup))
  \* guard: swa_evictable
  /\ IfSwa(Max(0, swa_u)) <= swa_evictable + IfSwa(Max(0, q - (Max(req_Q, req_E) + swa_dup)))
  \* effect
  /\ req_Q' = q
  /\ slot_Q' = (IF slot_lent THEN q ELSE slot_Q)
  /\ slot_C' = (IF slot_lent THEN req_C ELSE slot_C)
  /\ slot_A' = (IF slot_lent THEN req_A ELSE slot_A)
  /\ slot_E' = (IF slot_lent THEN req_E ELSE slot_E)
  /\ full_available' = full_available + Max(0, req_Q + dup - req_Q)
  /\ swa_available' = swa_available + IfSwa(Max(0, Max(req_Q, req_E) + swa_dup - Max(req_Q, req_E)))
  /\ full_evictable' = full_evictable + Max(0, q - (req_Q + dup)) - Max(0, u) + Max(0, 0)
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, q - (Max(req_Q, req_E) + swa_dup))) - IfSwa(Max(0, swa_u)) + IfSwa(Max(0, swa_x))
  /\ full_protected' = full_protected + Max(0, u) - Max(0, 0)
  /\ swa_protected' = swa_protected + IfSwa(Max(0, swa_u)) - IfSwa(Max(0, swa_x))
  /\ UNCHANGED <<Rows, Session, slot_holding, slot_lent, slot_row, slot_locked, req_kind,
                  req_phase, req_prompt, req_output, req_row, req_C, req_A, req_E,
                  req_locked>>

(* T-DECODE. One decoding round: d tokens allocated, k committed. Plain
   decoding has d = k = 1; a speculative round may commit from slack
   allocated before. *)
T_DECODE(d, k) ==
  \* guard: overlap
  /\ ~overlap
  \* guard: running
  /\ req_phase = PhaseRunning
  \* guard: prefilled
  /\ Known - 1 <= req_C
  \* guard: d
  /\ 0 <= d
  \* guard: k
  /\ 0 <= k
  /\ req_C + k <= req_A + d
  \* guard: width
  /\ req_A + d <= width
  \* guard: full_available
  /\ Max(0, Ceil(req_A + d) - Ceil(req_A)) <= full_available
  \* guard: swa_available
  /\ IfSwa(Max(0, Ceil(req_A + d) - Ceil(req_A))) <= swa_available
  \* effect
  /\ req_A' = req_A + d
  /\ req_C' = req_C + k
  /\ req_output' = req_output + k
  /\ full_available' = full_available - Max(0, Ceil(req_A + d) - Ceil(req_A))
  /\ swa_available' = swa_available - IfSwa(Max(0, Ceil(req_A + d) - Ceil(req_A)))
  /\ UNCHANGED <<full_evictable, full_protected, swa_evictable, swa_protected, Rows,
                  Session, Slot, req_kind, req_phase, req_prompt, req_row, req_Q, req_E,
                  req_locked>>

(* T-LAUNCH. A decoding round is launched before the result of the one
   before is known: d tokens allocated, KV for k computed, of which one
   token may not be known yet. *)
T_LAUNCH(d, k) ==
  \* guard: overlap
  /\ overlap
  \* guard: running
  /\ req_phase = PhaseRunning
  \* guard: prefilled
  /\ Known - 1 <= req_C
  \* guard: d
  /\ 0 <= d
  \* guard: k
  /\ 0 <= k
  /\ req_C + k <= req_A + d
  \* guard: ahead
  /\ req_C + k <= Known + 1
  \* guard: width
  /\ req_A + d <= width
  \* guard: full_available
  /\ Max(0, Ceil(req_A + d) - Ceil(req_A)) <= full_available
  \* guard: swa_available
  /\ IfSwa(Max(0, Ceil(req_A + d) - Ceil(req_A))) <= swa_available
  \* effect
  /\ req_A' = req_A + d
  /\ req_C' = req_C + k
  /\ full_available' = full_available - Max(0, Ceil(req_A + d) - Ceil(req_A))
  /\ swa_available' = swa_available - IfSwa(Max(0, Ceil(req_A + d) - Ceil(req_A)))
  /\ UNCHANGED <<full_evictable, full_protected, swa_evictable, swa_protected, Rows,
                  Session, Slot, req_kind, req_phase, req_prompt, req_output, req_row,
                  req_Q, req_E, req_locked>>

(* T-RESULT. The result of a round that was launched reaches the scheduler:
   n tokens become known, k of them by a speculative round, whose KV counts
   from now on. *)
T_RESULT(k, n) ==
  \* guard: overlap
  /\ overlap
  \* guard: running
  /\ req_phase = PhaseRunning
  \* guard: k
  /\ 0 <= k
  /\ req_C + k <= req_A
  \* guard: n
  /\ k <= n
  /\ Known + n <= req_C + k + 1
  \* effect
  /\ req_C' = req_C + k
  /\ req_output' = req_output + n
  /\ UNCHANGED <<Pools, SwaPool, Rows, Session, Slot, req_kind, req_phase, req_prompt,
                  req_row, req_A, req_Q, req_E, req_locked>>

(* T-SWA-ADVANCE. The SWA cursor moves up to e: no later token's window
   reaches below it. *)
T_SWA_ADVANCE(e) ==
  \* guard: swa
  /\ has_swa
  /\ Begun
  \* guard: e
  /\ req_E < e /\ e <= Floor(req_C - W)
  /\ Aligned(e)
  \* effect
  /\ req_E' = e
  /\ full_available' = full_available + Max(0, 0)
  /\ swa_available' = swa_available + IfSwa(Max(0, e - Max(req_Q, req_E)))
  /\ UNCHANGED <<full_evictable, full_protected, swa_evictable, swa_protected, Rows,
                  Session, Slot, req_kind, req_phase, req_prompt, req_output, req_row,
                  req_C, req_A, req_Q, req_locked>>

(* T-SAVE. A turn finishes with F output tokens: what speculation left past
   them is trimmed, its KV goes to the slot, the history grows, nothing is
   in flight. #22897, #22900 *)
T_SAVE(F) ==
  \* guard: turn
  /\ req_kind = KindTurn
  /\ session_inflight
  \* guard: running
  /\ req_phase = PhaseRunning
  \* guard: F
  /\ 0 <= F /\ F <= req_output
  /\ req_Q <= req_prompt + F
  \* guard: prefilled
  /\ req_prompt <= req_C
  \* effect
  /\ slot_holding' = TRUE
  /\ slot_lent' = FALSE
  /\ slot_row' = req_row
  /\ slot_Q' = req_Q
  /\ slot_locked' = TRUE
  /\ slot_C' = Min(req_C, Cut(req_prompt + F, req_E))
  /\ slot_A' = Min(req_A, IF keeps_slack /\ req_E <= req_prompt + F THEN req_A ELSE Cut(req_prompt + F, req_E))
  /\ slot_E' = Min(req_E, Cut(req_prompt + F, req_E))
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ session_inflight' = FALSE
  /\ session_history' = req_prompt + F
  /\ full_available' = full_available + Max(0, Ceil(req_A) - Ceil(IF keeps_slack /\ req_E <= req_prompt + F THEN req_A ELSE Cut(req_prompt + F, req_E)))
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(req_A) - Max(Ceil(IF keeps_slack /\ req_E <= req_prompt + F THEN req_A ELSE Cut(req_prompt + F, req_E)), req_E)))
  /\ UNCHANGED <<full_evictable, full_protected, swa_evictable, swa_protected, Rows,
                  session_open, session_closing>>

(* T-ABORT. A matched, parked or running turn is aborted: all its KV, its
   row and its lock go back and the slot disappears; the history stays as
   after the last finished turn. #22790 *)
T_ABORT(u, swa_u) ==
  \* guard: turn
  /\ req_kind = KindTurn
  \* guard: has_kv
  /\ HasKv
  \* guard: own_slot
  /\ (slot_holding => slot_lent)
  \* guard: u
  /\ 0 <= u /\ u <= LocksEither
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - LocksEither
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(LocksEither)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u
  /\ swa_protected - swa_u <= frame_lock_sum + LockSum - LocksEither
  \* effect
  /\ slot_holding' = FALSE
  /\ slot_lent' = FALSE
  /\ slot_row' = NoRow
  /\ slot_C' = 0
  /\ slot_A' = 0
  /\ slot_Q' = 0
  /\ slot_E' = 0
  /\ slot_locked' = FALSE
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ session_inflight' = FALSE
  /\ full_available' = full_available + Max(0, ReqPrivate)
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(req_A) - Max(req_Q, req_E)))
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, IF req_row # NoRow THEN 1 ELSE 0)
  /\ UNCHANGED <<session_open, session_closing, session_history>>

(* T-ABORT-PUBLISH. A running or parked turn is aborted as by T-ABORT, but
   [Q, q) goes to the tree, or is freed where the tree had it. *)
T_ABORT_PUBLISH(q, dup, swa_dup, u, swa_u) ==
  \* guard: turn
  /\ req_kind = KindTurn
  \* guard: has_kv
  /\ HasKv
  \* guard: own_slot
  /\ (slot_holding => slot_lent)
  \* guard: u
  /\ 0 <= u /\ u <= LocksEither
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - LocksEither
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(LocksEither)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u
  /\ swa_protected - swa_u <= frame_lock_sum + LockSum - LocksEither
  \* guard: begun
  /\ Begun
  \* guard: publishes
  /\ abort_publishes
  \* guard: q
  /\ req_Q <= q /\ q <= Floor(Min(req_C, Known))
  /\ Aligned(q)
  \* guard: dup
  /\ 0 <= dup /\ dup <= q - req_Q
  /\ Aligned(dup)
  \* guard: swa_dup
  /\ 0 <= swa_dup /\ swa_dup <= Max(0, req_Q + dup - Max(req_Q, req_E))
  /\ Aligned(swa_dup)
  \* effect
  /\ slot_holding' = FALSE
  /\ slot_lent' = FALSE
  /\ slot_row' = NoRow
  /\ slot_C' = 0
  /\ slot_A' = 0
  /\ slot_Q' = 0
  /\ slot_E' = 0
  /\ slot_locked' = FALSE
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ session_inflight' = FALSE
  /\ full_available' = full_available + Max(0, req_Q + dup - req_Q) + Max(0, Ceil(req_A) - q)
  /\ swa_available' = swa_available + IfSwa(Max(0, Max(req_Q, req_E) + swa_dup - Max(req_Q, req_E))) + IfSwa(Max(0, Ceil(req_A) - Max(q, req_E)))
  /\ full_evictable' = full_evictable + Max(0, q - (req_Q + dup)) + Max(0, u)
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, q - (Max(req_Q, req_E) + swa_dup))) + IfSwa(Max(0, swa_u))
  /\ full_protected' = full_protected - Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, IF req_row # NoRow THEN 1 ELSE 0)
  /\ UNCHANGED <<session_open, session_closing, session_history>>

(* T-OOM. A turn that is alone and outgrows the pool ends as an abort with
   a message. *)
T_OOM(u, swa_u) ==
  \* guard: turn
  /\ req_kind = KindTurn
  \* guard: has_kv
  /\ HasKv
  \* guard: own_slot
  /\ (slot_holding => slot_lent)
  \* guard: u
  /\ 0 <= u /\ u <= LocksEither
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - LocksEither
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(LocksEither)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u
  /\ swa_protected - swa_u <= frame_lock_sum + LockSum - LocksEither
  \* effect
  /\ slot_holding' = FALSE
  /\ slot_lent' = FALSE
  /\ slot_row' = NoRow
  /\ slot_C' = 0
  /\ slot_A' = 0
  /\ slot_Q' = 0
  /\ slot_E' = 0
  /\ slot_locked' = FALSE
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ session_inflight' = FALSE
  /\ full_available' = full_available + Max(0, ReqPrivate)
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(req_A) - Max(req_Q, req_E)))
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, IF req_row # NoRow THEN 1 ELSE 0)
  /\ UNCHANGED <<session_open, session_closing, session_history>>

(* T-ABORT-WAITING. A queued turn is aborted: it holds nothing and frees
   nothing. *)
T_ABORT_WAITING ==
  \* guard: turn
  /\ req_kind = KindTurn
  \* guard: waiting
  /\ req_phase = PhaseWaiting
  \* guard: not_lent
  /\ ~slot_lent
  \* guard: covered
  /\ (slot_holding => slot_C <= session_history)
  \* effect
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ session_inflight' = FALSE
  /\ UNCHANGED <<Pools, SwaPool, Rows, session_open, session_closing, session_history, Slot>>

(* T-ABORT-PARTIAL. A queued turn that a retract left with a partial slot
   is aborted: the slot is cut to the history (where that is impossible it
   is discarded first). *)
T_ABORT_PARTIAL ==
  \* guard: turn
  /\ req_kind = KindTurn
  \* guard: waiting
  /\ req_phase = PhaseWaiting
  \* guard: not_lent
  /\ ~slot_lent
  \* guard: partial
  /\ slot_holding
  /\ session_history < slot_C
  \* guard: possible
  /\ slot_Q <= session_history
  \* effect
  /\ slot_C' = Min(slot_C, Cut(session_history, slot_E))
  /\ slot_A' = Min(slot_A, IF keeps_slack /\ slot_E <= session_history THEN slot_A ELSE Cut(session_history, slot_E))
  /\ slot_E' = Min(slot_E, Cut(session_history, slot_E))
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ session_inflight' = FALSE
  /\ full_available' = full_available + Max(0, Ceil(slot_A) - Ceil(IF keeps_slack /\ slot_E <= session_history THEN slot_A ELSE Cut(session_history, slot_E)))
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(slot_A) - Max(Ceil(IF keeps_slack /\ slot_E <= session_history THEN slot_A ELSE Cut(session_history, slot_E)), slot_E)))
  /\ UNCHANGED <<full_evictable, full_protected, swa_evictable, swa_protected, Rows,
                  session_open, session_closing, session_history, slot_holding, slot_lent,
                  slot_row, slot_Q, slot_locked>>

(* T-RETRACT. A turn is taken out of the batch, or from between two chunks,
   and keeps its KV in the slot, made if absent; it waits and is still in
   flight. #22862 *)
T_RETRACT ==
  \* guard: turn
  /\ req_kind = KindTurn
  \* guard: begun
  /\ Begun
  \* guard: keeps
  /\ retract_keeps
  \* guard: covered
  /\ req_C <= Known
  \* effect
  /\ slot_holding' = TRUE
  /\ slot_lent' = FALSE
  /\ slot_row' = req_row
  /\ slot_Q' = req_Q
  /\ slot_locked' = TRUE
  /\ slot_C' = req_C
  /\ slot_A' = req_A
  /\ slot_E' = req_E
  /\ req_phase' = PhaseWaiting
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ UNCHANGED <<Pools, SwaPool, Rows, Session, req_kind, req_prompt, req_output>>

(* T-RETRACT-WIPE. A turn is taken out of the batch, or from between two
   chunks, and gives up all its KV and its slot; it waits and is still in
   flight. *)
T_RETRACT_WIPE(u, swa_u) ==
  \* guard: turn
  /\ req_kind = KindTurn
  \* guard: begun
  /\ Begun
  \* guard: wipes
  /\ ~retract_keeps
  \* guard: u
  /\ 0 <= u /\ u <= LocksEither
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - LocksEither
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(LocksEither)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u
  /\ swa_protected - swa_u <= frame_lock_sum + LockSum - LocksEither
  \* effect
  /\ slot_holding' = FALSE
  /\ slot_lent' = FALSE
  /\ slot_row' = NoRow
  /\ slot_C' = 0
  /\ slot_A' = 0
  /\ slot_Q' = 0
  /\ slot_E' = 0
  /\ slot_locked' = FALSE
  /\ req_phase' = PhaseWaiting
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ full_available' = full_available + Max(0, ReqPrivate)
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(req_A) - Max(req_Q, req_E)))
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, IF req_row # NoRow THEN 1 ELSE 0)
  /\ UNCHANGED <<Session, req_kind, req_prompt, req_output>>

(* T-EVICT. The tree gives up unlocked pages. *)
T_EVICT(n, swa_n) ==
  \* guard: n
  /\ 0 <= n
  /\ Aligned(n)
  \* guard: swa_n
  /\ 0 <= swa_n
  /\ Aligned(swa_n)
  \* guard: full_evictable
  /\ Max(0, n) <= full_evictable
  \* guard: swa_evictable
  /\ IfSwa(Max(0, swa_n)) <= swa_evictable
  \* effect
  /\ full_evictable' = full_evictable - Max(0, n)
  /\ full_available' = full_available + Max(0, n)
  /\ swa_evictable' = swa_evictable - IfSwa(Max(0, swa_n))
  /\ swa_available' = swa_available + IfSwa(Max(0, swa_n))
  /\ UNCHANGED <<full_protected, swa_protected, Rows, Session, Slot, Request>>

(* T-PLAIN-FINISH. A request without a session ends: prompt and output go
   to the tree up to q, the rest is freed, its lock and its row are given
   back. *)
T_PLAIN_FINISH(q, dup, swa_dup, u, swa_u) ==
  \* guard: plain
  /\ req_kind = KindPlain
  \* guard: running
  /\ req_phase = PhaseRunning
  \* guard: q
  /\ req_Q <= q /\ q <= Floor(Min(req_C, Known))
  /\ Aligned(q)
  \* guard: dup
  /\ 0 <= dup /\ dup <= q - req_Q
  /\ Aligned(dup)
  \* guard: swa_dup
  /\ 0 <= swa_dup /\ swa_dup <= Max(0, req_Q + dup - Max(req_Q, req_E))
  /\ Aligned(swa_dup)
  \* guard: u
  /\ 0 <= u /\ u <= ReqLocks
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - ReqLocks
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(ReqLocks)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u /\ swa_protected - swa_u <= frame_lock_sum + LockSum - ReqLocks
  \* effect
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ full_available' = full_available + Max(0, req_Q + dup - req_Q) + Max(0, Ceil(req_A) - q)
  /\ swa_available' = swa_available + IfSwa(Max(0, Max(req_Q, req_E) + swa_dup - Max(req_Q, req_E))) + IfSwa(Max(0, Ceil(req_A) - Max(q, req_E)))
  /\ full_evictable' = full_evictable + Max(0, q - (req_Q + dup)) + Max(0, u)
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, q - (Max(req_Q, req_E) + swa_dup))) + IfSwa(Max(0, swa_u))
  /\ full_protected' = full_protected - Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, IF req_row # NoRow THEN 1 ELSE 0)
  /\ UNCHANGED <<Session, Slot>>

(* T-PLAIN-ABORT. A request without a session is aborted, queued or
   running: whatever it holds goes back. *)
T_PLAIN_ABORT(u, swa_u) ==
  \* guard: plain
  /\ req_kind = KindPlain
  \* guard: u
  /\ 0 <= u /\ u <= ReqLocks
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - ReqLocks
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(ReqLocks)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u /\ swa_protected - swa_u <= frame_lock_sum + LockSum - ReqLocks
  \* effect
  /\ req_kind' = KindNone
  /\ req_phase' = PhaseAbsent
  /\ req_prompt' = 0
  /\ req_output' = 0
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ full_available' = full_available + Max(0, ReqPrivate)
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(req_A) - Max(req_Q, req_E)))
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, IF req_row # NoRow THEN 1 ELSE 0)
  /\ UNCHANGED <<Session, Slot>>

(* T-PLAIN-RETRACT. A request without a session is taken out of the batch,
   or from between two chunks, and gives everything back; it waits. *)
T_PLAIN_RETRACT(u, swa_u) ==
  \* guard: plain
  /\ req_kind = KindPlain
  \* guard: begun
  /\ Begun
  \* guard: u
  /\ 0 <= u /\ u <= ReqLocks
  /\ Aligned(u)
  \* guard: u_others
  /\ frame_lock_max <= full_protected - u
  /\ full_protected - u <= frame_lock_sum + LockSum - ReqLocks
  \* guard: swa_u
  /\ 0 <= swa_u /\ swa_u <= IfSwa(ReqLocks)
  /\ Aligned(swa_u)
  \* guard: swa_u_others
  /\ 0 <= swa_protected - swa_u /\ swa_protected - swa_u <= frame_lock_sum + LockSum - ReqLocks
  \* effect
  /\ req_phase' = PhaseWaiting
  /\ req_row' = NoRow
  /\ req_C' = 0
  /\ req_A' = 0
  /\ req_Q' = 0
  /\ req_E' = 0
  /\ req_locked' = FALSE
  /\ full_available' = full_available + Max(0, ReqPrivate)
  /\ swa_available' = swa_available + IfSwa(Max(0, Ceil(req_A) - Max(req_Q, req_E)))
  /\ full_protected' = full_protected - Max(0, u)
  /\ full_evictable' = full_evictable + Max(0, u)
  /\ swa_protected' = swa_protected - IfSwa(Max(0, swa_u))
  /\ swa_evictable' = swa_evictable + IfSwa(Max(0, swa_u))
  /\ rows_free' = rows_free + Max(0, IF req_row # NoRow THEN 1 ELSE 0)
  /\ UNCHANGED <<Session, Slot, req_kind, req_prompt, req_output>>

------------------------------------------------------------------------------
(* Behaviour *)

Init ==
  /\ full_available = full_total
  /\ full_evictable = 0
  /\ full_protected = 0
  /\ swa_available = swa_total
  /\ swa_evictable = 0
  /\ swa_protected = 0
  /\ rows_free = rows_total
  /\ session_open = FALSE
  /\ session_closing = FALSE
  /\ session_inflight = FALSE
  /\ session_history = 0
  /\ slot_holding = FALSE
  /\ slot_lent = FALSE
  /\ slot_row = NoRow
  /\ slot_C = 0
  /\ slot_A = 0
  /\ slot_Q = 0
  /\ slot_E = 0
  /\ slot_locked = FALSE
  /\ req_kind = KindNone
  /\ req_phase = PhaseAbsent
  /\ req_prompt = 0
  /\ req_output = 0
  /\ req_row = NoRow
  /\ req_C = 0
  /\ req_A = 0
  /\ req_Q = 0
  /\ req_E = 0
  /\ req_locked = FALSE

Next ==
  \/ T_OPEN
  \/ \E u, swa_u \in Tokens : T_CLOSE(u, swa_u)
  \/ T_CLOSE_DEFER
  \/ \E u, swa_u \in Tokens : T_REAP(u, swa_u)
  \/ \E new \in Tokens : T_SUBMIT(new)
  \/ \E prompt \in Tokens : T_REJECT(prompt)
  \/ \E prompt \in Tokens : T_DOOM(prompt)
  \/ \E prompt \in Tokens : T_PLAIN_SUBMIT(prompt)
  \/ \E m, u, swa_u \in Tokens : T_MATCH(m, u, swa_u)
  \/ T_RESTORE
  \/ \E u, swa_u \in Tokens : T_DISCARD(u, swa_u)
  \/ \E u, swa_u \in Tokens : T_REFUSE(u, swa_u)
  \/ \E t, sampled \in Tokens, row \in 0 .. rows_total - 1 : T_EXTEND(t, sampled, row)
  \/ T_PARK
  \/ \E q, dup, swa_dup, u, swa_u, swa_x \in Tokens : T_INSERT(q, dup, swa_dup, u, swa_u, swa_x)
  \/ \E d, k \in Tokens : T_DECODE(d, k)
  \/ \E d, k \in Tokens : T_LAUNCH(d, k)
  \/ \E k, n \in Tokens : T_RESULT(k, n)
  \/ \E e \in Tokens : T_SWA_ADVANCE(e)
  \/ \E F \in Tokens : T_SAVE(F)
  \/ \E u, swa_u \in Tokens : T_ABORT(u, swa_u)
  \/ \E q, dup, swa_dup, u, swa_u \in Tokens : T_ABORT_PUBLISH(q, dup, swa_dup, u, swa_u)
  \/ \E u, swa_u \in Tokens : T_OOM(u, swa_u)
  \/ T_ABORT_WAITING
  \/ T_ABORT_PARTIAL
  \/ T_RETRACT
  \/ \E u, swa_u \in Tokens : T_RETRACT_WIPE(u, swa_u)
  \/ \E n, swa_n \in Tokens : T_EVICT(n, swa_n)
  \/ \E q, dup, swa_dup, u, swa_u \in Tokens : T_PLAIN_FINISH(q, dup, swa_dup, u, swa_u)
  \/ \E u, swa_u \in Tokens : T_PLAIN_ABORT(u, swa_u)
  \/ \E u, swa_u \in Tokens : T_PLAIN_RETRACT(u, swa_u)

Spec == Init /\ [][Next]_vars

------------------------------------------------------------------------------
(* Invariants of a state *)

(* INV-SUM-FULL. available + evictable + protected + held + uncached =
   total, and no term is negative. *)
INV_SUM_FULL_equation ==
  full_available + full_evictable + full_protected + Held + Uncached + frame_held + frame_uncached = full_total
INV_SUM_FULL_nonnegative ==
  /\ 0 <= full_available
  /\ 0 <= full_evictable
  /\ 0 <= full_protected
  /\ 0 <= Held + Uncached
INV_SUM_FULL ==
  /\ INV_SUM_FULL_equation
  /\ INV_SUM_FULL_nonnegative

(* INV-SUM-SWA. The same for the sliding-window pool, where the cursor has
   taken its share. *)
INV_SUM_SWA_equation ==
  swa_available + swa_evictable + swa_protected + SwaHeld + SwaUncached + frame_swa_held + frame_swa_uncached = swa_total
INV_SUM_SWA_nonnegative ==
  /\ 0 <= swa_available
  /\ 0 <= swa_evictable
  /\ 0 <= swa_protected
  /\ 0 <= SwaHeld + SwaUncached
INV_SUM_SWA ==
  /\ INV_SUM_SWA_equation
  /\ INV_SUM_SWA_nonnegative

(* INV-ROWS. Free rows and rows of slots and requests (on loan: once) are
   all rows; no row twice. *)
INV_ROWS_equation ==
  rows_free + SlotRows + ReqRows + frame_rows = rows_total
INV_ROWS_present ==
  /\ 0 <= rows_free
  /\ (slot_holding <=> slot_row # NoRow)
INV_ROWS_distinct ==
  slot_holding /\ HasKv /\ ~slot_lent => slot_row # req_row
INV_ROWS_numbered ==
  /\ NoRow <= slot_row
  /\ NoRow <= req_row
INV_ROWS ==
  /\ INV_ROWS_equation
  /\ INV_ROWS_present
  /\ INV_ROWS_distinct
  /\ INV_ROWS_numbered

(* INV-ROW. Every row is free or has one user: a slot, on loan to its turn
   or not, or a request. *)
INV_ROW_one(line_number, line_free, line_rest) ==
  line_free + OwnsRow(line_number) + line_rest = 1
INV_ROW_counted(line_free, line_rest) ==
  /\ 0 <= line_free
  /\ 0 <= line_rest
INV_ROW(line_number, line_free, line_rest) ==
  /\ INV_ROW_one(line_number, line_free, line_rest)
  /\ INV_ROW_counted(line_free, line_rest)

(* INV-ONCE. A slot's KV is counted exactly once: held or uncached, never
   both, never neither. *)
INV_ONCE_never_both ==
  /\ (OnLoan => Held = 0)
  /\ (OnLoan => slot_lent)
INV_ONCE_never_neither ==
  /\ (slot_lent => OnLoan)
  /\ (slot_holding /\ ~OnLoan => Held = SlotPrivate)
INV_ONCE ==
  /\ INV_ONCE_never_both
  /\ INV_ONCE_never_neither

(* INV-INFLIGHT. A session is in flight exactly while one accepted,
   unfinished turn of it exists. *)
INV_INFLIGHT_iff ==
  session_inflight <=> req_kind = KindTurn
INV_INFLIGHT ==
  /\ INV_INFLIGHT_iff

(* INV-ORDER. 0 ≤ Q ≤ C ≤ A ≤ row width. *)
INV_ORDER_slot ==
  0 <= slot_Q /\ slot_Q <= slot_C /\ slot_C <= slot_A /\ slot_A <= width
INV_ORDER_req ==
  0 <= req_Q /\ req_Q <= req_C /\ req_C <= req_A /\ req_A <= width
INV_ORDER ==
  /\ INV_ORDER_slot
  /\ INV_ORDER_req

(* INV-ALIGN. Q is page-aligned, and only whole pages change hands. *)
INV_ALIGN_slot ==
  Aligned(slot_Q)
INV_ALIGN_req ==
  Aligned(req_Q)
INV_ALIGN_free ==
  /\ Aligned(full_available)
  /\ Aligned(swa_available)
INV_ALIGN_tree ==
  /\ Aligned(full_evictable)
  /\ Aligned(full_protected)
  /\ Aligned(swa_evictable)
  /\ Aligned(swa_protected)
INV_ALIGN ==
  /\ INV_ALIGN_slot
  /\ INV_ALIGN_req
  /\ INV_ALIGN_free
  /\ INV_ALIGN_tree

(* INV-CURSOR. 0 ≤ E ≤ A, and E is page-aligned. *)
INV_CURSOR_slot ==
  /\ 0 <= slot_E /\ slot_E <= slot_A
  /\ Aligned(slot_E)
INV_CURSOR_req ==
  /\ 0 <= req_E /\ req_E <= req_A
  /\ Aligned(req_E)
INV_CURSOR_no_window ==
  \/ has_swa
  \/ slot_E = 0 /\ req_E = 0
INV_CURSOR ==
  /\ INV_CURSOR_slot
  /\ INV_CURSOR_req
  /\ INV_CURSOR_no_window

(* INV-WINDOW. Nothing of the window that a request's next token needs is
   given back: E ≤ max(0, C - W). *)
INV_WINDOW_req ==
  has_swa /\ HasKv => req_E <= Max(0, req_C - W)
INV_WINDOW ==
  /\ INV_WINDOW_req

(* INV-COVER. KV covers known tokens only; under overlap scheduling that of
   a running request is one ahead at most. *)
INV_COVER_idle ==
  slot_holding /\ ~session_inflight => slot_C <= session_history
INV_COVER_waiting ==
  slot_holding /\ session_inflight /\ ~slot_lent => slot_C <= Known
INV_COVER_req ==
  HasKv => req_C <= Known + (IF overlap /\ req_phase = PhaseRunning THEN 1 ELSE 0)
INV_COVER ==
  /\ INV_COVER_idle
  /\ INV_COVER_waiting
  /\ INV_COVER_req

(* INV-OWNER. Every page has exactly one owner: the free list, the tree, or
   one private row. *)
INV_OWNER_exactly_one(page_free, page_tree, page_own, page_rest) ==
  page_free + page_tree + page_own + page_rest = 1
INV_OWNER_counted(page_free, page_tree, page_own, page_rest) ==
  /\ 0 <= page_free
  /\ 0 <= page_tree
  /\ 0 <= page_own
  /\ 0 <= page_rest
INV_OWNER_placed(page_at) ==
  /\ Aligned(page_at)
  /\ 0 <= page_at
INV_OWNER_full(page_own, page_here, page_at) ==
  page_own = (IF OwnsFull(page_here, page_at) THEN 1 ELSE 0)
INV_OWNER_swa(page_own, page_here, page_at) ==
  page_own = (IF OwnsSwa(page_here, page_at) THEN 1 ELSE 0)
INV_OWNER_of_full(page_free, page_tree, page_own, page_rest, page_here, page_at) ==
  /\ INV_OWNER_exactly_one(page_free, page_tree, page_own, page_rest)
  /\ INV_OWNER_counted(page_free, page_tree, page_own, page_rest)
  /\ INV_OWNER_placed(page_at)
  /\ INV_OWNER_full(page_own, page_here, page_at)
INV_OWNER_of_swa(page_free, page_tree, page_own, page_rest, page_here, page_at) ==
  /\ INV_OWNER_exactly_one(page_free, page_tree, page_own, page_rest)
  /\ INV_OWNER_counted(page_free, page_tree, page_own, page_rest)
  /\ INV_OWNER_placed(page_at)
  /\ INV_OWNER_swa(page_own, page_here, page_at)

(* INV-BACKED. Every position of a row that counts has a page: from Q to A,
   and below Q what the row needs of the tree. Whose it is say INV-OWNER
   and INV-PIN. *)
INV_BACKED_full_protected(page_place, page_entry) ==
  ActorHasKv /\ 0 <= page_place /\ page_place < OwnQ => -1 < page_entry
INV_BACKED_full_private(page_place, page_entry) ==
  ActorHasKv /\ OwnQ <= page_place /\ page_place < Ceil(OwnA) => -1 < page_entry
INV_BACKED_swa_protected(page_place, page_entry) ==
  (/\ ActorHasKv
   /\ /\ 0 <= page_place /\ page_place < OwnQ
      /\ OwnE <= page_place
      /\ Floor(Max(0, OwnQ - W)) <= page_place) =>
      -1 < page_entry
INV_BACKED_swa_private(page_place, page_entry) ==
  ActorHasKv /\ Max(OwnQ, OwnE) <= page_place /\ page_place < Ceil(OwnA) => -1 < page_entry
INV_BACKED_of_full(page_place, page_entry) ==
  /\ INV_BACKED_full_protected(page_place, page_entry)
  /\ INV_BACKED_full_private(page_place, page_entry)
INV_BACKED_of_swa(page_place, page_entry) ==
  /\ INV_BACKED_swa_protected(page_place, page_entry)
  /\ INV_BACKED_swa_private(page_place, page_entry)

(* INV-PIN. A locked page is the tree's, and `protected` counts it once. A
   lock covers pages below Q only, and all to which the row points there;
   in the sliding-window pool at least those from ⌊max(0, Q - W)⌋ on that
   the cursor has not passed. *)
INV_PIN_counted(page_pins, page_beside) ==
  /\ 0 <= page_pins
  /\ 0 <= page_beside
INV_PIN_tree(page_tree, page_pin, page_pins) ==
  Pinned(page_pin, page_pins) => page_tree = 1
INV_PIN_mine(page_here, page_at, page_pin) ==
  page_pin => ActorHasKv /\ page_here /\ page_at < OwnQ
INV_PIN_full_covers(page_here, page_at, page_pin) ==
  ActorHasKv /\ page_here /\ 0 <= page_at /\ page_at < OwnQ => page_pin
INV_PIN_swa_covers(page_here, page_at, page_pin) ==
  (/\ ActorHasKv
   /\ page_here
   /\ 0 <= page_at /\ page_at < OwnQ
   /\ OwnE <= page_at
   /\ Floor(Max(0, OwnQ - W)) <= page_at) =>
      page_pin
INV_PIN_full(page_pin, page_pins, page_beside) ==
  full_protected = (IF Pinned(page_pin, page_pins) THEN Ceil(1) ELSE 0) + page_beside
INV_PIN_swa(page_pin, page_pins, page_beside) ==
  swa_protected = (IF Pinned(page_pin, page_pins) THEN Ceil(1) ELSE 0) + page_beside
INV_PIN_of_full(page_tree, page_here, page_at, page_pin, page_pins, page_beside) ==
  /\ INV_PIN_counted(page_pins, page_beside)
  /\ INV_PIN_tree(page_tree, page_pin, page_pins)
  /\ INV_PIN_mine(page_here, page_at, page_pin)
  /\ INV_PIN_full_covers(page_here, page_at, page_pin)
  /\ INV_PIN_full(page_pin, page_pins, page_beside)
INV_PIN_of_swa(page_tree, page_here, page_at, page_pin, page_pins, page_beside) ==
  /\ INV_PIN_counted(page_pins, page_beside)
  /\ INV_PIN_tree(page_tree, page_pin, page_pins)
  /\ INV_PIN_mine(page_here, page_at, page_pin)
  /\ INV_PIN_swa_covers(page_here, page_at, page_pin)
  /\ INV_PIN_swa(page_pin, page_pins, page_beside)

(* INV-PLACE. A position of a row has one page, and no page lies at two
   positions that count: those that the row owns, and those of its prefix
   that it needs. *)
INV_PLACE_function(page_here, page_at, page_number, page_place, page_entry) ==
  ActorHasKv /\ page_here /\ page_at = page_place => page_entry = page_number
INV_PLACE_full_injective(page_here, page_at, page_number, page_place, page_entry) ==
  (/\ ActorHasKv
   /\ (0 <= page_place /\ page_place < OwnQ) \/ (OwnQ <= page_place /\ page_place < Ceil(OwnA))
   /\ page_entry = page_number) =>
      /\ page_here
      /\ page_at = page_place
INV_PLACE_swa_injective(page_here, page_at, page_number, page_place, page_entry) ==
  (/\ ActorHasKv
   /\ \/ /\ 0 <= page_place /\ page_place < OwnQ
         /\ OwnE <= page_place
         /\ Floor(Max(0, OwnQ - W)) <= page_place
      \/ Max(OwnQ, OwnE) <= page_place /\ page_place < Ceil(OwnA)
   /\ page_entry = page_number) =>
      /\ page_here
      /\ page_at = page_place
INV_PLACE_of_full(page_here, page_at, page_number, page_place, page_entry) ==
  /\ INV_PLACE_function(page_here, page_at, page_number, page_place, page_entry)
  /\ INV_PLACE_full_injective(page_here, page_at, page_number, page_place, page_entry)
INV_PLACE_of_swa(page_here, page_at, page_number, page_place, page_entry) ==
  /\ INV_PLACE_function(page_here, page_at, page_number, page_place, page_entry)
  /\ INV_PLACE_swa_injective(page_here, page_at, page_number, page_place, page_entry)

(* INV-LOCK. Every tree lock taken is released exactly once: whoever has a
   protected prefix has one. *)
INV_LOCK_slot ==
  slot_locked <=> slot_holding
INV_LOCK_req ==
  req_locked <=> HasKv /\ ~slot_lent
INV_LOCK_covered ==
  /\ (HasKv => req_Q <= full_protected)
  /\ (slot_holding => slot_Q <= full_protected)
  /\ frame_lock_max <= full_protected
INV_LOCK_bounded ==
  full_protected <= frame_lock_sum + LockSum
INV_LOCK_swa_bounded ==
  swa_protected <= frame_lock_sum + LockSum
INV_LOCK ==
  /\ INV_LOCK_slot
  /\ INV_LOCK_req
  /\ INV_LOCK_covered
  /\ INV_LOCK_bounded
  /\ INV_LOCK_swa_bounded

(* INV-DRAIN. Nothing in flight and every session closed: all memory and
   rows are back, no lock is left. *)
INV_DRAIN_drained ==
  (/\ ~session_open
   /\ req_kind = KindNone
   /\ frame_held + frame_uncached = 0
   /\ frame_swa_held + frame_swa_uncached = 0
   /\ frame_rows = 0 /\ frame_lock_sum = 0) =>
      /\ full_available + full_evictable = full_total
      /\ swa_available + swa_evictable = swa_total
      /\ rows_free = rows_total
INV_DRAIN ==
  /\ INV_DRAIN_drained

(* INV-ABSENT. What is not there is zero: a session, a slot, a request, KV
   of a request that has none. *)
INV_ABSENT_session ==
  \/ session_open
  \/ ~slot_holding /\ ~session_inflight /\ ~session_closing /\ session_history = 0
INV_ABSENT_slot ==
  \/ slot_holding
  \/ ~slot_lent /\ slot_C = 0 /\ slot_A = 0 /\ slot_Q = 0 /\ slot_E = 0
INV_ABSENT_req ==
  req_kind = KindNone => req_phase = PhaseAbsent /\ req_prompt = 0 /\ req_output = 0
INV_ABSENT_kv ==
  \/ HasKv
  \/ req_row = NoRow /\ req_C = 0 /\ req_A = 0 /\ req_Q = 0 /\ req_E = 0
INV_ABSENT ==
  /\ INV_ABSENT_session
  /\ INV_ABSENT_slot
  /\ INV_ABSENT_req
  /\ INV_ABSENT_kv

(* INV-KIND. A request is a turn of its session, or has none; there is a
   kind and a phase exactly while there is a request. *)
INV_KIND_range ==
  /\ KindNone <= req_kind /\ req_kind <= KindPlain
  /\ PhaseAbsent <= req_phase /\ req_phase <= PhaseRunning
INV_KIND_both ==
  req_kind = KindNone <=> req_phase = PhaseAbsent
INV_KIND_alone ==
  req_kind = KindPlain => ~session_open
INV_KIND ==
  /\ INV_KIND_range
  /\ INV_KIND_both
  /\ INV_KIND_alone

(* INV-PHASE. A matched request without a slot has the tree's prefix and
   nothing else; one that is running or parked has a row; one that is
   parked has some of its prompt to prefill. *)
INV_PHASE_matched ==
  ~slot_lent /\ req_phase = PhaseMatched => req_row = NoRow /\ req_A = req_Q
INV_PHASE_row ==
  PhaseParked <= req_phase => req_row # NoRow
INV_PHASE_parked ==
  req_phase = PhaseParked => req_C < Known
INV_PHASE ==
  /\ INV_PHASE_matched
  /\ INV_PHASE_row
  /\ INV_PHASE_parked

(* INV-LOAN. A turn that has KV has its slot on loan, if there is one;
   until it runs, both describe the same. *)
INV_LOAN_lent ==
  req_kind = KindTurn /\ HasKv /\ slot_holding => slot_lent
INV_LOAN_prefix ==
  slot_lent => req_Q = slot_Q
INV_LOAN_same ==
  slot_lent /\ req_phase = PhaseMatched => req_C = slot_C /\ req_A = slot_A /\ req_E = slot_E
INV_LOAN ==
  /\ INV_LOAN_lent
  /\ INV_LOAN_prefix
  /\ INV_LOAN_same

(* INV-TOKENS. No count of tokens is negative, and a turn's prompt is not
   shorter than the history. *)
INV_TOKENS_counted ==
  /\ 0 <= session_history
  /\ 0 <= req_prompt
  /\ 0 <= req_output
INV_TOKENS_prompt ==
  req_kind = KindTurn => session_history <= req_prompt
INV_TOKENS ==
  /\ INV_TOKENS_counted
  /\ INV_TOKENS_prompt

------------------------------------------------------------------------------
(* Invariants of a step *)

(* INV-ROWS-STEP. KV stays in its row: a turn's while it runs, and the slot
   that it leaves behind has the turn's. *)
INV_ROWS_STEP_stays ==
  slot_holding' => slot_row' = (IF slot_holding THEN slot_row ELSE req_row)
INV_ROWS_STEP_req ==
  HasKv /\ HasKv' /\ req_row # NoRow => req_row' = req_row
INV_ROWS_STEP ==
  /\ INV_ROWS_STEP_stays
  /\ INV_ROWS_STEP_req

(* INV-ALIGN-STEP. Only whole pages are allocated, freed or moved; with
   aligned reuse what is reused ends at a page boundary. *)
INV_ALIGN_STEP_full ==
  Aligned(full_available' - full_available)
INV_ALIGN_STEP_swa ==
  Aligned(swa_available' - swa_available)
INV_ALIGN_STEP_reuse ==
  req_phase = PhaseWaiting /\ req_phase' = PhaseMatched /\ aligned_reuse => Aligned(req_C')
INV_ALIGN_STEP ==
  /\ INV_ALIGN_STEP_full
  /\ INV_ALIGN_STEP_swa
  /\ INV_ALIGN_STEP_reuse

(* INV-INFLIGHT-STEP. Only the turn that is in flight, by ending, clears
   that; a new one never displaces it. A session ends only when nothing is
   in flight, and a close that was asked for is not forgotten. *)
INV_INFLIGHT_STEP_clears ==
  session_inflight /\ ~session_inflight' => req_kind' # KindTurn
INV_INFLIGHT_STEP_keeps ==
  session_inflight /\ session_inflight' => req_prompt' = req_prompt
INV_INFLIGHT_STEP_defers ==
  ~session_closing /\ session_closing' => session_inflight
INV_INFLIGHT_STEP_closes ==
  session_closing /\ ~session_inflight => ~session_inflight'
INV_INFLIGHT_STEP_ends ==
  session_open /\ ~session_open' => ~session_inflight
INV_INFLIGHT_STEP_remembers ==
  session_closing /\ session_open' => session_closing'
INV_INFLIGHT_STEP ==
  /\ INV_INFLIGHT_STEP_clears
  /\ INV_INFLIGHT_STEP_keeps
  /\ INV_INFLIGHT_STEP_defers
  /\ INV_INFLIGHT_STEP_closes
  /\ INV_INFLIGHT_STEP_ends
  /\ INV_INFLIGHT_STEP_remembers

(* INV-HISTORY. History is empty when a session opens, and changes only
   where a running turn finishes and leaves its KV in the slot: to prompt
   and output of that turn. The next prompt is history plus new tokens. *)
INV_HISTORY_sampled ==
  session_open /\ session_open' /\ session_history' # session_history =>
      session_history' <= Known
INV_HISTORY_only_at_finish ==
  session_open /\ session_open' /\ session_history' # session_history =>
      /\ session_inflight
      /\ ~session_inflight'
      /\ req_phase = PhaseRunning
      /\ req_prompt <= session_history'
      /\ slot_holding'
      /\ ~slot_lent'
INV_HISTORY_begins ==
  ~session_open => ~(session_open' /\ session_history' # session_history)
INV_HISTORY ==
  /\ INV_HISTORY_sampled
  /\ INV_HISTORY_only_at_finish
  /\ INV_HISTORY_begins

(* INV-LIFE-STEP. A request waits, is matched, runs, and may be parked or
   wait again; what it is and its prompt stay the same. *)
INV_LIFE_STEP_kind ==
  req_kind # KindNone /\ req_kind' # KindNone => req_kind' = req_kind
INV_LIFE_STEP_prompt ==
  req_kind # KindNone /\ req_kind' # KindNone /\ req_kind = KindPlain =>
      req_prompt' = req_prompt
INV_LIFE_STEP_begins ==
  req_kind = KindNone => req_phase' <= PhaseWaiting
INV_LIFE_STEP_matched ==
  req_phase' = PhaseMatched => req_phase <= PhaseMatched
INV_LIFE_STEP_runs ==
  req_phase' = PhaseRunning => HasKv
INV_LIFE_STEP_parked ==
  req_phase' = PhaseParked => Begun
INV_LIFE_STEP ==
  /\ INV_LIFE_STEP_kind
  /\ INV_LIFE_STEP_prompt
  /\ INV_LIFE_STEP_begins
  /\ INV_LIFE_STEP_matched
  /\ INV_LIFE_STEP_runs
  /\ INV_LIFE_STEP_parked

(* INV-COVER-STEP. Known tokens only grow; one is sampled, and a round
   decodes, only when all before it have KV, and a turn finishes only with
   its prompt prefilled. KV counts as computed, and tokens become known,
   where a batch runs and nothing else happens: KV of known tokens, of
   those that the round tells, of one more under overlap scheduling. *)
INV_COVER_STEP_keeps ==
  req_kind # KindNone /\ req_kind' # KindNone => req_output <= req_output'
INV_COVER_STEP_samples ==
  req_kind # KindNone /\ req_kind' # KindNone /\ req_output < req_output' =>
      Known' - 1 <= req_C'
INV_COVER_STEP_decodes ==
  req_kind # KindNone /\ req_kind' # KindNone /\ req_phase = PhaseRunning /\ req_C < req_C' =>
      Known - 1 <= req_C
INV_COVER_STEP_finishes ==
  (/\ req_kind # KindNone
   /\ req_kind' = KindNone
   /\ session_open'
   /\ session_history < session_history') =>
      req_prompt <= req_C
INV_COVER_STEP_computes ==
  ActorHasKv /\ ActorHasKv' /\ OwnC < OwnC' =>
      /\ req_phase' = PhaseRunning
      /\ OwnE' = OwnE
      /\ OwnQ' = OwnQ
INV_COVER_STEP_prefills ==
  req_phase # PhaseRunning /\ req_phase' = PhaseRunning => req_C' <= Known
INV_COVER_STEP_rounds ==
  req_kind # KindNone /\ req_kind' # KindNone /\ req_phase = PhaseRunning /\ HasKv' =>
      \/ req_C' <= req_C + req_output' - req_output
      \/ overlap /\ req_C' <= Known + 1
INV_COVER_STEP_tells ==
  req_kind # KindNone /\ req_kind' # KindNone /\ 0 < req_output' - req_output =>
      /\ req_phase' = PhaseRunning
      /\ OwnE' = OwnE
      /\ OwnQ' = OwnQ
      /\ overlap \/ req_phase # PhaseRunning \/ OwnC < OwnC'
INV_COVER_STEP ==
  /\ INV_COVER_STEP_keeps
  /\ INV_COVER_STEP_samples
  /\ INV_COVER_STEP_decodes
  /\ INV_COVER_STEP_finishes
  /\ INV_COVER_STEP_computes
  /\ INV_COVER_STEP_prefills
  /\ INV_COVER_STEP_rounds
  /\ INV_COVER_STEP_tells

(* INV-KEEP-STEP. KV that stays is not lost: a restore reuses all that
   known tokens, reserve and profile allow, an end cuts no further than to
   the history, and else C never shrinks. A match or a restore leaves the
   reserve to be recomputed. A refused turn still has its slot, if it had
   one. *)
INV_KEEP_STEP_reserve ==
  req_phase = PhaseWaiting /\ req_phase' = PhaseMatched => req_C' + reserve <= Known
INV_KEEP_STEP_restores ==
  ActorHasKv /\ ActorHasKv' /\ req_phase = PhaseWaiting /\ req_phase' = PhaseMatched =>
      Min(OwnC, Cut(Reusable, OwnE)) <= OwnC'
INV_KEEP_STEP_ends ==
  ActorHasKv /\ ActorHasKv' /\ req_kind # KindNone /\ req_kind' = KindNone =>
      Min(OwnC, Cut(session_history', OwnE)) <= OwnC'
INV_KEEP_STEP_runs ==
  (/\ ActorHasKv
   /\ ActorHasKv'
   /\ ~(req_phase = PhaseWaiting /\ req_phase' = PhaseMatched)
   /\ ~(req_kind # KindNone /\ req_kind' = KindNone)) =>
      OwnC <= OwnC'
INV_KEEP_STEP_refused ==
  HasKv /\ ~Begun /\ req_phase' = PhaseWaiting => slot_holding' <=> slot_holding
INV_KEEP_STEP ==
  /\ INV_KEEP_STEP_reserve
  /\ INV_KEEP_STEP_restores
  /\ INV_KEEP_STEP_ends
  /\ INV_KEEP_STEP_runs
  /\ INV_KEEP_STEP_refused

(* INV-CURSOR-STEP. The cursor moves up only while the request runs or is
   parked, and back only as far as the KV is cut. *)
INV_CURSOR_STEP_up ==
  ActorHasKv /\ ActorHasKv' /\ OwnE < OwnE' => Begun /\ PhaseParked <= req_phase'
INV_CURSOR_STEP_back ==
  ActorHasKv /\ ActorHasKv' => Min(OwnE, OwnC') <= OwnE'
INV_CURSOR_STEP ==
  /\ INV_CURSOR_STEP_up
  /\ INV_CURSOR_STEP_back

(* INV-QUEUED-STEP. A queued turn that ends leaves memory and its session's
   slot alone, but for what a retract left above the history. *)
INV_QUEUED_STEP_slot ==
  (/\ req_kind # KindNone
   /\ req_kind' = KindNone
   /\ req_phase = PhaseWaiting
   /\ ~(slot_holding /\ session_history < slot_C)) =>
      /\ (slot_holding' <=> slot_holding)
      /\ slot_A' = slot_A
      /\ full_available' = full_available
INV_QUEUED_STEP ==
  /\ INV_QUEUED_STEP_slot

(* INV-LOCK-STEP. Protected changes by no more than the locks that are
   taken or released; in the sliding-window pool so much is protected after
   a match as its window needs. *)
INV_LOCK_STEP_rises ==
  full_protected' - full_protected <= Max(0, LockSum' - LockSum)
INV_LOCK_STEP_falls ==
  0 - (full_protected' - full_protected) <= Max(0, LockSum - LockSum')
INV_LOCK_STEP_swa_rises ==
  swa_protected' - swa_protected <= (IF PhaseParked <= req_phase /\ PhaseParked <= req_phase' THEN LockSum' ELSE Max(0, LockSum' - LockSum))
INV_LOCK_STEP_swa_falls ==
  0 - (swa_protected' - swa_protected) <= (IF PhaseParked <= req_phase /\ PhaseParked <= req_phase' THEN LockSum ELSE Max(0, LockSum - LockSum'))
INV_LOCK_STEP_window ==
  has_swa /\ req_phase = PhaseWaiting /\ req_phase' = PhaseMatched /\ ~slot_holding =>
      req_Q' - Floor(Max(0, req_Q' - W)) <= swa_protected'
INV_LOCK_STEP ==
  /\ INV_LOCK_STEP_rises
  /\ INV_LOCK_STEP_falls
  /\ INV_LOCK_STEP_swa_rises
  /\ INV_LOCK_STEP_swa_falls
  /\ INV_LOCK_STEP_window

(* INV-PUBLISH-STEP. No more goes to the tree than whole pages of committed
   KV of known tokens. When a request ends, its KV goes there only if it
   was running or parked; without a session, only if it was running. *)
INV_PUBLISH_STEP_turn ==
  (/\ req_kind # KindNone
   /\ req_kind' = KindNone
   /\ req_kind = KindTurn
   /\ 0 < full_evictable' + full_protected' - full_evictable - full_protected) =>
      PhaseParked <= req_phase
INV_PUBLISH_STEP_plain ==
  (/\ req_kind # KindNone
   /\ req_kind' = KindNone
   /\ req_kind = KindPlain
   /\ 0 < full_evictable' + full_protected' - full_evictable - full_protected) =>
      req_phase = PhaseRunning
INV_PUBLISH_STEP_committed ==
  full_evictable' + full_protected' - full_evictable - full_protected <= (IF ActorHasKv THEN Max(0, Floor(Min(OwnC, IF HasKv \/ session_inflight THEN Known ELSE session_history)) - OwnQ) ELSE 0)
INV_PUBLISH_STEP_swa_committed ==
  swa_evictable' + swa_protected' - swa_evictable - swa_protected <= (IF ActorHasKv THEN Max(0, Floor(Min(OwnC, IF HasKv \/ session_inflight THEN Known ELSE session_history)) - Max(OwnQ, OwnE)) ELSE 0)
INV_PUBLISH_STEP ==
  /\ INV_PUBLISH_STEP_turn
  /\ INV_PUBLISH_STEP_plain
  /\ INV_PUBLISH_STEP_committed
  /\ INV_PUBLISH_STEP_swa_committed

Steps ==
  [][INV_ROWS_STEP /\ INV_ALIGN_STEP /\ INV_INFLIGHT_STEP
     /\ INV_HISTORY /\ INV_LIFE_STEP /\ INV_COVER_STEP
     /\ INV_KEEP_STEP /\ INV_CURSOR_STEP /\ INV_QUEUED_STEP
     /\ INV_LOCK_STEP /\ INV_PUBLISH_STEP
    ]_vars
==============================================================================
