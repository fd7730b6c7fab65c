--------------------------- MODULE SlotproofActors ---------------------------
EXTENDS Integers, FiniteSets, TLC

(* The accounting of KV in an LLM serving engine, with several actors. Generated from
   slotproof's model/ by `slotproof docs`: do not edit. Lengths are tokens. *)

CONSTANTS
  P, has_swa, W, width, reserve, aligned_reuse, retract_keeps,
  abort_publishes, overlap, loan_publishes, drops_last, keeps_slack, slack,
  batches, full_total, swa_total, rows_total, Actors, Kept, Steps, News,
  Prompts, Drafts, MaxHistory, MaxOutput, MaxTree, Depth

VARIABLES pools, actors, pages, freerows, broken
vars == <<pools, actors, pages, freerows, broken>>

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
Cut(n, E) == IF E <= n THEN n ELSE Floor(n)
Not(name) == PrintT(<<"does not hold", name>>) /\ FALSE

RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET b == CHOOSE b \in S : TRUE IN f[b] + Sum(f, S \ {b})
RECURSIVE Longest(_, _)
Longest(f, S) ==
  IF S = {} THEN 0 ELSE LET b == CHOOSE b \in S : TRUE IN Max(f[b], Longest(f, S \ {b}))

Tokens == {n * P : n \in 0 .. (full_total \div P)}
SwaTokens == IF has_swa THEN Tokens ELSE {0}
Lines == 0 .. rows_total - 1
Places == {n * P : n \in 0 .. (width + P - 1) \div P}

SlotPrivate(x) ==
  Ceil(x.slot_A) - x.slot_Q
SlotPrivateSwa(x) ==
  IfSwa(Ceil(x.slot_A) - Max(x.slot_Q, x.slot_E))
SlotLocks(x) ==
  IF x.slot_locked THEN x.slot_Q ELSE 0
ReqPrivate(x) ==
  Ceil(x.req_A) - x.req_Q
ReqPrivateSwa(x) ==
  IfSwa(Ceil(x.req_A) - Max(x.req_Q, x.req_E))
ReqLocks(x) ==
  IF x.req_locked THEN x.req_Q ELSE 0
Known(x) ==
  x.req_prompt + x.req_output
Answering(x) ==
  x.req_told = x.req_output
Answered(x) ==
  x.req_prompt + (IF drops_last THEN Max(0, x.req_told - 1) ELSE x.req_told)
Certain(x) ==
  Min(Answered(x), x.req_prompt + x.req_told - slack)
HasKv(x) ==
  PhaseMatched <= x.req_phase
Begun(x) ==
  \/ x.req_phase = PhaseRunning
  \/ x.req_phase = PhaseParked
OnLoan(x) ==
  /\ HasKv(x)
  /\ x.slot_holding
  /\ x.req_kind = KindTurn
  /\ x.req_row = x.slot_row
LocksTree(x) ==
  \/ x.req_locked
  \/ x.slot_lent /\ x.slot_locked
LocksEither(x) ==
  IF LocksTree(x) THEN x.req_Q ELSE 0
Reusable(x) ==
  IF aligned_reuse THEN Floor(Min(x.slot_C, Known(x) - reserve)) ELSE Min(x.slot_C, Known(x) - reserve)
Held(x) ==
  IF x.slot_holding /\ ~x.slot_lent THEN SlotPrivate(x) ELSE 0
Uncached(x) ==
  IF HasKv(x) THEN ReqPrivate(x) ELSE 0
SwaHeld(x) ==
  IF x.slot_holding /\ ~x.slot_lent THEN SlotPrivateSwa(x) ELSE 0
SwaUncached(x) ==
  IF HasKv(x) THEN ReqPrivateSwa(x) ELSE 0
SlotRows(x) ==
  IF x.slot_holding THEN 1 ELSE 0
ReqRows(x) ==
  IF HasKv(x) /\ ~x.slot_lent /\ x.req_row # NoRow THEN 1 ELSE 0
LockSum(x) ==
  SlotLocks(x) + ReqLocks(x)
LockMax(x) ==
  Max(SlotLocks(x), ReqLocks(x))
ActorHasKv(x) ==
  \/ x.slot_holding
  \/ HasKv(x)
OwnC(x) ==
  IF HasKv(x) THEN x.req_C ELSE x.slot_C
OwnA(x) ==
  IF HasKv(x) THEN x.req_A ELSE x.slot_A
OwnQ(x) ==
  IF HasKv(x) THEN x.req_Q ELSE x.slot_Q
OwnE(x) ==
  IF HasKv(x) THEN x.req_E ELSE x.slot_E

Share(x) == [held |-> Held(x), uncached |-> Uncached(x), swa_held |-> SwaHeld(x), swa_uncached |-> SwaUncached(x), rows |-> SlotRows(x) + ReqRows(x), lock_max |-> LockMax(x), lock_sum |-> LockSum(x)]
View(pl, own, share, others) ==
  [full_available |-> pl.full_available,
   full_evictable |-> pl.full_evictable,
   full_protected |-> pl.full_protected,
   swa_available |-> pl.swa_available,
   swa_evictable |-> pl.swa_evictable,
   swa_protected |-> pl.swa_protected,
   rows_free |-> pl.rows_free,
   session_open |-> own.session_open,
   session_closing |-> own.session_closing,
   session_inflight |-> own.session_inflight,
   session_history |-> own.session_history,
   slot_holding |-> own.slot_holding,
   slot_lent |-> own.slot_lent,
   slot_row |-> own.slot_row,
   slot_C |-> own.slot_C,
   slot_A |-> own.slot_A,
   slot_Q |-> own.slot_Q,
   slot_E |-> own.slot_E,
   slot_locked |-> own.slot_locked,
   req_kind |-> own.req_kind,
   req_phase |-> own.req_phase,
   req_prompt |-> own.req_prompt,
   req_output |-> own.req_output,
   req_told |-> own.req_told,
   req_rounds |-> own.req_rounds,
   req_row |-> own.req_row,
   req_C |-> own.req_C,
   req_A |-> own.req_A,
   req_Q |-> own.req_Q,
   req_E |-> own.req_E,
   req_locked |-> own.req_locked,
   frame_held |-> Sum([b \in others |-> share[b].held], others),
   frame_uncached |-> Sum([b \in others |-> share[b].uncached], others),
   frame_swa_held |-> Sum([b \in others |-> share[b].swa_held], others),
   frame_swa_uncached |-> Sum([b \in others |-> share[b].swa_uncached], others),
   frame_rows |-> Sum([b \in others |-> share[b].rows], others),
   frame_lock_max |-> Longest([b \in others |-> share[b].lock_max], others),
   frame_lock_sum |-> Sum([b \in others |-> share[b].lock_sum], others)]
Shares == [b \in Actors |-> Share(actors[b])]
Seen(a, share) == View(pools, actors[a], share, Actors \ {a})
OwnOf(y) == [session_open |-> y.session_open, session_closing |-> y.session_closing, session_inflight |-> y.session_inflight, session_history |-> y.session_history, slot_holding |-> y.slot_holding, slot_lent |-> y.slot_lent, slot_row |-> y.slot_row, slot_C |-> y.slot_C, slot_A |-> y.slot_A, slot_Q |-> y.slot_Q, slot_E |-> y.slot_E, slot_locked |-> y.slot_locked, req_kind |-> y.req_kind, req_phase |-> y.req_phase, req_prompt |-> y.req_prompt, req_output |-> y.req_output, req_told |-> y.req_told, req_rounds |-> y.req_rounds, req_row |-> y.req_row, req_C |-> y.req_C, req_A |-> y.req_A, req_Q |-> y.req_Q, req_E |-> y.req_E, req_locked |-> y.req_locked]
PoolsOf(y) == [full_available |-> y.full_available, full_evictable |-> y.full_evictable, full_protected |-> y.full_protected, swa_available |-> y.swa_available, swa_evictable |-> y.swa_evictable, swa_protected |-> y.swa_protected, rows_free |-> y.rows_free]
Nobody == [session_open |-> FALSE, session_closing |-> FALSE, session_inflight |-> FALSE, session_history |-> 0, slot_holding |-> FALSE, slot_lent |-> FALSE, slot_row |-> NoRow, slot_C |-> 0, slot_A |-> 0, slot_Q |-> 0, slot_E |-> 0, slot_locked |-> FALSE, req_kind |-> KindNone, req_phase |-> PhaseAbsent, req_prompt |-> 0, req_output |-> 0, req_told |-> 0, req_rounds |-> 0, req_row |-> NoRow, req_C |-> 0, req_A |-> 0, req_Q |-> 0, req_E |-> 0, req_locked |-> FALSE]
Alone(prompt) == [session_open |-> FALSE, session_closing |-> FALSE, session_inflight |-> FALSE, session_history |-> 0, slot_holding |-> FALSE, slot_lent |-> FALSE, slot_row |-> NoRow, slot_C |-> 0, slot_A |-> 0, slot_Q |-> 0, slot_E |-> 0, slot_locked |-> FALSE, req_kind |-> KindPlain, req_phase |-> PhaseWaiting, req_prompt |-> prompt, req_output |-> 0, req_told |-> 0, req_rounds |-> 0, req_row |-> NoRow, req_C |-> 0, req_A |-> 0, req_Q |-> 0, req_E |-> 0, req_locked |-> FALSE]

InTree_full(x, at) ==
  /\ 0 <= at /\ at < OwnQ(x)
InOwn_full(x, at) ==
  /\ OwnQ(x) <= at /\ at < Ceil(OwnA(x))
InTree_swa(x, at) ==
  /\ 0 <= at /\ at < OwnQ(x)
  /\ OwnE(x) <= at
  /\ Floor(Max(0, OwnQ(x) - W)) <= at
InOwn_swa(x, at) ==
  /\ Max(OwnQ(x), OwnE(x)) <= at /\ at < Ceil(OwnA(x))
HasLock(x) == (x.slot_locked \/ x.req_locked)

(* Pages of one pool, by number. The number 0 means no page. Entries that do not count are 0. *)

Empty(total) ==
  [free |-> 1 .. (total \div P), tree |-> {},
   row |-> [a \in Actors |-> [at \in Places |-> 0]], lock |-> [a \in Actors |-> {}]]
LockedBy(l, S) == UNION {l.lock[a] : a \in S}
Between(low, high) == {at \in Places : low <= at /\ at < high}
At(l, a, S) == {l.row[a][at] : at \in S} \ {0}
Lowest(S) == CHOOSE p \in S : \A each \in S : p <= each

\* The row's pages in [low, high) become free.
Freed(l, a, low, high) ==
  LET S == Between(low, high) IN
  [l EXCEPT !.free = @ \cup At(l, a, S),
            !.row[a] = [at \in Places |-> IF at \in S THEN 0 ELSE l.row[a][at]]]
\* The row's pages in [low, high) become the tree's.
Shared(l, a, low, high) == [l EXCEPT !.tree = @ \cup At(l, a, Between(low, high))]
\* Free pages go to the row. All free pages are interchangeable.
RECURSIVE Taken(_, _, _, _)
Taken(l, a, low, high) ==
  IF low >= high \/ l.free = {} THEN l
  ELSE LET p == Lowest(l.free) IN
       Taken([l EXCEPT !.free = @ \ {p}, !.row[a][low] = p], a, low + P, high)
\* The row points to pages of the tree: to no page twice, and at every position that needs a page.
Pointed(l, a, low, high, y, Needs(_, _)) ==
  LET S == Between(low, high)
      T == l.tree \ At(l, a, Places \ S)
  IN {[l EXCEPT !.row[a] = [at \in Places |-> IF at \in S THEN f[at] ELSE l.row[a][at]]] :
        f \in {f \in [S -> T \cup {0}] :
          /\ \A i \in S : (Needs(y, i) /\ "found" \in Kept) => f[i] # 0
          /\ \A i, j \in S : (i # j /\ f[i] # 0) => f[i] # f[j]}}
\* Pages that the lock must cover, and pages that it may cover.
Must(l, a, y, Needs(_, _)) == At(l, a, {at \in Places : Needs(y, at)}) \cap l.tree
May(l, a, y) == At(l, a, Between(0, OwnQ(y))) \cap l.tree
Locked(l, a, u, y, Needs(_, _)) ==
  LET must == IF "covers" \in Kept THEN Must(l, a, y, Needs) \ l.lock[a] ELSE {}
      others == LockedBy(l, Actors)
  IN {[l EXCEPT !.lock[a] = @ \cup D] :
        D \in {D \in SUBSET (May(l, a, y) \ l.lock[a]) :
          /\ must \subseteq D
          /\ "first_pin" \in Kept => u = P * Cardinality(D \ others)}}
\* The lock is dropped as a whole, but an insert may drop only pages outside the window.
Unlocked(l, a, u, y, Needs(_, _), again) ==
  LET others == LockedBy(l, Actors \ {a})
      gone == IF ~HasLock(y) THEN {IF "released" \in Kept THEN l.lock[a] ELSE {}}
              ELSE IF again THEN SUBSET (l.lock[a] \ Must(l, a, y, Needs)) ELSE {{}}
  IN {[l EXCEPT !.lock[a] = @ \ D] :
        D \in {D \in gone : "last_pin" \in Kept => u = P * Cardinality(D \ others)}}
\* The tree evicts unlocked pages.
Evicted(l, n) ==
  LET T == IF "unpinned" \in Kept THEN l.tree \ LockedBy(l, Actors) ELSE l.tree IN
  {[l EXCEPT !.tree = @ \ E, !.free = @ \cup E] :
     E \in {E \in SUBSET T : P * Cardinality(E) = n}}
Tidy(l, a, y, Needs(_, _), Owns(_, _)) ==
  [l EXCEPT !.row[a] = [at \in Places |->
     IF \/ ActorHasKv(y) /\ (Needs(y, at) \/ Owns(y, at))
        \/ l.row[a][at] \in l.lock[a]
     THEN l.row[a][at] ELSE 0]]

MyRow(x) == IF HasKv(x) THEN x.req_row ELSE x.slot_row
RowsOf(x) == (IF x.slot_holding THEN {x.slot_row} ELSE {})
  \cup (IF HasKv(x) /\ ~x.slot_lent /\ x.req_row # NoRow THEN {x.req_row} ELSE {})

\* Invariants of one pool, over its page numbers and the lengths of all actors.
PoolHolds(l, seen, total, available, evictable, protected, Needs(_, _), Owns(_, _)) ==
  LET owned == [a \in Actors |->
        IF ActorHasKv(seen[a]) THEN {at \in Places : Owns(seen[a], at)} ELSE {}]
      needed == [a \in Actors |->
        IF ActorHasKv(seen[a]) THEN {at \in Places : Needs(seen[a], at)} ELSE {}]
      all == LockedBy(l, Actors)
  IN
  /\ \/ /\ l.free \cup l.tree \cup UNION {At(l, a, owned[a]) : a \in Actors} = 1 .. (total \div P)
        /\ Cardinality(l.free) + Cardinality(l.tree)
             + Sum([a \in Actors |-> Cardinality(owned[a])], Actors) = total \div P
     \/ Not("INV-OWNER")
  /\ all \subseteq l.tree \/ Not("INV-PIN.tree")
  /\ \/ /\ available = P * Cardinality(l.free)
        /\ evictable = P * Cardinality(l.tree \ all)
        /\ protected = P * Cardinality(all)
     \/ Not("INV-PIN: figures")
  /\ \A a \in Actors :
     /\ \A at \in owned[a] \cup needed[a] : l.row[a][at] # 0 \/ Not("INV-BACKED")
     /\ At(l, a, needed[a]) \subseteq l.lock[a] \/ Not("INV-PIN.covers")
     /\ \/ l.lock[a] \subseteq At(l, a, Between(0, OwnQ(seen[a]))) \/ Not("INV-PIN.mine")
     /\ \/ \A i, j \in owned[a] \cup needed[a] : i # j => l.row[a][i] # l.row[a][j]
        \/ Not("INV-PLACE")

Within(y) ==
  /\ y.session_history <= MaxHistory
  /\ y.req_output <= MaxOutput
  /\ y.full_evictable + y.full_protected <= MaxTree
  /\ y.swa_evictable + y.swa_protected <= MaxTree

Near == TLCGet("level") <= Depth
Permuted == Permutations(Actors)

INV_SUM_FULL(x) ==
  \* equation
  /\ x.full_available + x.full_evictable + x.full_protected + Held(x) + Uncached(x) + x.frame_held + x.frame_uncached = full_total
  \* nonnegative
  /\ 0 <= x.full_available
  /\ 0 <= x.full_evictable
  /\ 0 <= x.full_protected
  /\ 0 <= Held(x) + Uncached(x)
INV_SUM_SWA(x) ==
  \* equation
  /\ x.swa_available + x.swa_evictable + x.swa_protected + SwaHeld(x) + SwaUncached(x) + x.frame_swa_held + x.frame_swa_uncached = swa_total
  \* nonnegative
  /\ 0 <= x.swa_available
  /\ 0 <= x.swa_evictable
  /\ 0 <= x.swa_protected
  /\ 0 <= SwaHeld(x) + SwaUncached(x)
INV_ROWS(x) ==
  \* equation
  /\ x.rows_free + SlotRows(x) + ReqRows(x) + x.frame_rows = rows_total
  \* present
  /\ 0 <= x.rows_free
  /\ (x.slot_holding <=> x.slot_row # NoRow)
  \* distinct
  /\ (x.slot_holding /\ HasKv(x) /\ ~x.slot_lent => x.slot_row # x.req_row)
  \* numbered
  /\ NoRow <= x.slot_row
  /\ NoRow <= x.req_row
INV_ONCE(x) ==
  \* never_both
  /\ (OnLoan(x) => Held(x) = 0)
  /\ (OnLoan(x) => x.slot_lent)
  \* never_neither
  /\ (x.slot_lent => OnLoan(x))
  /\ (x.slot_holding /\ ~OnLoan(x) => Held(x) = SlotPrivate(x))
INV_INFLIGHT(x) ==
  \* iff
  /\ (x.session_inflight <=> x.req_kind = KindTurn)
INV_ORDER(x) ==
  \* slot
  /\ 0 <= x.slot_Q /\ x.slot_Q <= x.slot_C /\ x.slot_C <= x.slot_A /\ x.slot_A <= width
  \* req
  /\ 0 <= x.req_Q /\ x.req_Q <= x.req_C /\ x.req_C <= x.req_A /\ x.req_A <= width
INV_ALIGN(x) ==
  \* slot
  /\ Aligned(x.slot_Q)
  \* req
  /\ Aligned(x.req_Q)
  \* free
  /\ Aligned(x.full_available)
  /\ Aligned(x.swa_available)
  \* tree
  /\ Aligned(x.full_evictable)
  /\ Aligned(x.full_protected)
  /\ Aligned(x.swa_evictable)
  /\ Aligned(x.swa_protected)
INV_CURSOR(x) ==
  \* slot
  /\ 0 <= x.slot_E /\ x.slot_E <= x.slot_A
  /\ Aligned(x.slot_E)
  \* req
  /\ 0 <= x.req_E /\ x.req_E <= x.req_A
  /\ Aligned(x.req_E)
  \* no_window
  /\ has_swa \/ (x.slot_E = 0 /\ x.req_E = 0)
INV_WINDOW(x) ==
  \* req
  /\ (has_swa /\ HasKv(x) => x.req_E <= Max(0, x.req_C - W))
INV_COVER(x) ==
  \* idle
  /\ (x.slot_holding /\ ~x.session_inflight => x.slot_C <= x.session_history)
  \* waiting
  /\ (x.slot_holding /\ x.session_inflight /\ ~x.slot_lent => x.slot_C <= Known(x))
  \* req
  /\ HasKv(x) => x.req_C <= Known(x) + (IF overlap /\ x.req_phase = PhaseRunning THEN batches - 1 ELSE 0)
  \* published
  /\ (HasKv(x) => x.req_Q <= Known(x))
  \* rounds
  /\ (overlap /\ x.req_phase = PhaseRunning /\ Known(x) <= x.req_C => x.req_C < Known(x) + x.req_rounds)
INV_LOCK(x) ==
  \* slot
  /\ (x.slot_locked <=> x.slot_holding)
  \* req
  /\ (x.req_locked <=> HasKv(x) /\ ~x.slot_lent)
  \* covered
  /\ (HasKv(x) => x.req_Q <= x.full_protected)
  /\ (x.slot_holding => x.slot_Q <= x.full_protected)
  /\ x.frame_lock_max <= x.full_protected
  \* bounded
  /\ x.full_protected <= x.frame_lock_sum + LockSum(x)
  \* swa_bounded
  /\ x.swa_protected <= x.frame_lock_sum + LockSum(x)
INV_DRAIN(x) ==
  \* drained
  /\ (/\ ~x.session_open
      /\ x.req_kind = KindNone
      /\ x.frame_held + x.frame_uncached = 0
      /\ x.frame_swa_held + x.frame_swa_uncached = 0
      /\ x.frame_rows = 0 /\ x.frame_lock_sum = 0) =>
         /\ x.full_available + x.full_evictable = full_total
         /\ x.swa_available + x.swa_evictable = swa_total
         /\ x.rows_free = rows_total
INV_ABSENT(x) ==
  \* session
  /\ \/ x.session_open
     \/ ~x.slot_holding /\ ~x.session_inflight /\ ~x.session_closing /\ x.session_history = 0
  \* slot
  /\ x.slot_holding \/ (~x.slot_lent /\ x.slot_C = 0 /\ x.slot_A = 0 /\ x.slot_Q = 0 /\ x.slot_E = 0)
  \* req
  /\ (x.req_kind = KindNone => x.req_phase = PhaseAbsent /\ x.req_prompt = 0 /\ x.req_output = 0)
  \* kv
  /\ HasKv(x) \/ (x.req_row = NoRow /\ x.req_C = 0 /\ x.req_A = 0 /\ x.req_Q = 0 /\ x.req_E = 0)
INV_KIND(x) ==
  \* range
  /\ KindNone <= x.req_kind /\ x.req_kind <= KindPlain
  /\ PhaseAbsent <= x.req_phase /\ x.req_phase <= PhaseRunning
  \* both
  /\ (x.req_kind = KindNone <=> x.req_phase = PhaseAbsent)
  \* alone
  /\ (x.req_kind = KindPlain => ~x.session_open)
INV_PHASE(x) ==
  \* matched
  /\ (~x.slot_lent /\ x.req_phase = PhaseMatched => x.req_row = NoRow /\ x.req_A = x.req_Q)
  \* row
  /\ (PhaseParked <= x.req_phase => x.req_row # NoRow)
  \* parked
  /\ (x.req_phase = PhaseParked => x.req_C < Known(x))
INV_LOAN(x) ==
  \* lent
  /\ (x.req_kind = KindTurn /\ HasKv(x) /\ x.slot_holding => x.slot_lent)
  \* prefix
  /\ (x.slot_lent => x.req_Q = x.slot_Q)
  \* same
  /\ x.slot_lent /\ x.req_phase = PhaseMatched => x.req_C = x.slot_C /\ x.req_A = x.slot_A /\ x.req_E = x.slot_E
  \* grows
  /\ (x.slot_lent => x.slot_C <= x.req_C /\ x.slot_A <= x.req_A /\ x.slot_E <= x.req_E)
INV_TOKENS(x) ==
  \* counted
  /\ 0 <= x.session_history
  /\ 0 <= x.req_prompt
  /\ 0 <= x.req_output
  \* prompt
  /\ (x.req_kind = KindTurn => x.session_history <= x.req_prompt)
  \* told
  /\ 0 <= x.req_told /\ x.req_told <= x.req_output
  \* past_end
  /\ ~Answering(x) =>
         /\ x.req_phase = PhaseRunning
         /\ x.req_prompt <= x.req_C
         /\ (x.req_kind = KindTurn => x.req_Q <= Answered(x))
INV_ROUNDS(x) ==
  \* counted
  /\ 0 <= x.req_rounds
  /\ (0 < x.req_rounds => x.req_rounds <= batches)
  \* running
  /\ 0 < x.req_rounds =>
         /\ overlap
         /\ \/ x.req_phase = PhaseRunning
            \/ x.req_phase = PhaseWaiting /\ ~retract_keeps /\ ~x.slot_holding
INV_ROWS_STEP(x, y) ==
  \* stays
  /\ (y.slot_holding => y.slot_row = (IF x.slot_holding THEN x.slot_row ELSE x.req_row))
  \* req
  /\ (HasKv(x) /\ HasKv(y) /\ x.req_row # NoRow => y.req_row = x.req_row)
INV_ALIGN_STEP(x, y) ==
  \* full
  /\ Aligned(y.full_available - x.full_available)
  \* swa
  /\ Aligned(y.swa_available - x.swa_available)
  \* reuse
  /\ (x.req_phase = PhaseWaiting /\ y.req_phase = PhaseMatched /\ aligned_reuse => Aligned(y.req_C))
INV_INFLIGHT_STEP(x, y, z) ==
  \* clears
  /\ (x.session_inflight /\ ~y.session_inflight => y.req_kind # KindTurn)
  \* keeps
  /\ (x.session_inflight /\ y.session_inflight => y.req_prompt = x.req_prompt)
  \* defers
  /\ (~x.session_closing /\ y.session_closing => x.session_inflight)
  \* asks
  /\ ~x.session_closing /\ y.session_closing =>
         /\ z.step_closes
         /\ (y.session_open <=> x.session_open)
         /\ (y.session_inflight <=> x.session_inflight)
         /\ y.session_history = x.session_history
         /\ (y.slot_holding <=> x.slot_holding)
         /\ (y.slot_lent <=> x.slot_lent)
         /\ y.slot_row = x.slot_row
         /\ y.slot_C = x.slot_C
         /\ y.slot_A = x.slot_A
         /\ y.slot_Q = x.slot_Q
         /\ y.slot_E = x.slot_E
         /\ (y.slot_locked <=> x.slot_locked)
         /\ y.req_kind = x.req_kind
         /\ y.req_phase = x.req_phase
         /\ y.req_prompt = x.req_prompt
         /\ y.req_output = x.req_output
         /\ y.req_told = x.req_told
         /\ y.req_rounds = x.req_rounds
         /\ y.req_row = x.req_row
         /\ y.req_C = x.req_C
         /\ y.req_A = x.req_A
         /\ y.req_Q = x.req_Q
         /\ y.req_E = x.req_E
         /\ (y.req_locked <=> x.req_locked)
         /\ ~z.step_detached
  \* heard
  /\ (z.step_closes => y.session_closing \/ ~y.session_open)
  \* closes
  /\ (x.session_closing /\ ~x.session_inflight => ~y.session_inflight)
  \* ends
  /\ (x.session_open /\ ~y.session_open => ~x.session_inflight)
  \* remembers
  /\ (x.session_closing /\ y.session_open => y.session_closing)
INV_HISTORY(x, y, z) ==
  \* told
  /\ x.session_open /\ y.session_open /\ y.session_history # x.session_history =>
         y.session_history = Answered(x)
  \* complete
  /\ (x.session_open /\ z.step_finishes /\ x.req_kind = KindTurn => y.session_history = Answered(x))
  \* late
  /\ (/\ x.session_open
      /\ y.session_open
      /\ y.session_history # x.session_history
      /\ x.req_phase = PhaseWaiting) =>
         z.step_finishes
  \* only_at_finish
  /\ x.session_open /\ y.session_open /\ y.session_history # x.session_history =>
         /\ x.session_inflight
         /\ ~y.session_inflight
         /\ \/ x.req_phase = PhaseRunning
            \/ /\ overlap
               /\ ~retract_keeps
               /\ x.req_phase = PhaseWaiting
               /\ 0 < x.req_output
               /\ ~x.slot_holding
         /\ x.req_prompt <= y.session_history
         /\ (y.slot_holding <=> x.req_phase = PhaseRunning)
         /\ ~y.slot_lent
  \* begins
  /\ (~x.session_open => ~(y.session_open /\ y.session_history # x.session_history))
  \* extends
  /\ x.req_kind # KindTurn /\ y.req_kind = KindTurn =>
         /\ y.req_prompt = x.session_history + z.step_new
         /\ 0 <= z.step_new
INV_LIFE_STEP(x, y, z) ==
  \* kind
  /\ (x.req_kind # KindNone /\ y.req_kind # KindNone => y.req_kind = x.req_kind)
  \* prompt
  /\ x.req_kind # KindNone /\ y.req_kind # KindNone /\ x.req_kind = KindPlain =>
         y.req_prompt = x.req_prompt
  \* begins
  /\ x.req_kind = KindNone /\ y.req_kind # KindNone =>
         /\ y.req_phase = PhaseWaiting
         /\ 1 <= y.req_prompt
         /\ y.req_output = 0
  \* detaches
  /\ z.step_detached =>
         IF x.req_kind # KindNone /\ y.req_kind = KindNone /\ x.req_kind = KindTurn THEN x.req_phase = PhaseWaiting ELSE x.session_inflight \/ x.session_closing
  \* ends
  /\ (x.req_kind # KindNone /\ y.req_kind = KindNone => z.step_final \/ z.step_detached)
  \* answered
  /\ (z.step_final => x.req_kind # KindNone /\ y.req_kind = KindNone)
  \* finishes
  /\ z.step_finishes =>
         /\ z.step_final
         /\ \/ x.req_phase = PhaseRunning
            \/ /\ overlap
               /\ ~retract_keeps
               /\ x.req_phase = PhaseWaiting
               /\ 0 < x.req_output
               /\ ~x.slot_holding
  \* matched
  /\ (y.req_phase = PhaseMatched => x.req_phase <= PhaseMatched)
  \* runs
  /\ (y.req_phase = PhaseRunning => HasKv(x))
  \* parked
  /\ (y.req_phase = PhaseParked => Begun(x))
INV_TOLD_STEP(x, y, z) ==
  \* next
  /\ x.req_kind # KindNone /\ y.req_kind # KindNone /\ 0 < y.req_output - x.req_output =>
         z.step_at = Known(x)
  \* keeps
  /\ (x.req_kind # KindNone /\ y.req_kind # KindNone => 0 <= y.req_told - x.req_told)
  \* reported
  /\ x.req_kind # KindNone /\ y.req_kind # KindNone =>
         y.req_told - x.req_told <= Max(0, y.req_output - x.req_output)
  \* ends
  /\ (x.req_kind # KindNone /\ y.req_kind # KindNone /\ ~Answering(x) => y.req_told - x.req_told <= 0)
INV_ROUND_STEP(x, y) ==
  \* results
  /\ overlap /\ x.req_kind # KindNone /\ y.req_kind # KindNone /\ 0 < y.req_output - x.req_output =>
         y.req_rounds - x.req_rounds = -1
  \* wiped
  /\ x.req_phase = PhaseRunning /\ y.req_phase = PhaseWaiting /\ ~retract_keeps =>
         y.req_rounds - x.req_rounds = 0
  \* arrives
  /\ (y.req_rounds - x.req_rounds < 0 => (y.req_phase = x.req_phase => 0 < y.req_output - x.req_output))
  \* launches
  /\ 0 < y.req_rounds - x.req_rounds =>
         /\ y.req_rounds - x.req_rounds = 1
         /\ Answering(x)
         /\ y.req_phase = PhaseRunning
         /\ Known(x) <= y.req_C + 1
         /\ y.req_output - x.req_output = 0
         /\ OwnQ(y) = OwnQ(x)
         /\ OwnE(y) = OwnE(x)
  \* ahead
  /\ (/\ overlap
      /\ x.req_kind # KindNone
      /\ y.req_kind # KindNone
      /\ x.req_phase = PhaseRunning
      /\ y.req_output - x.req_output = 0
      /\ x.req_C < y.req_C \/ x.req_A < y.req_A) =>
         y.req_rounds - x.req_rounds = 1
  \* prefills
  /\ overlap /\ x.req_phase # PhaseRunning /\ y.req_phase = PhaseRunning =>
         y.req_rounds = (IF y.req_C = Known(x) THEN 1 ELSE 0)
INV_COVER_STEP(x, y, z) ==
  \* keeps
  /\ (x.req_kind # KindNone /\ y.req_kind # KindNone => x.req_output <= y.req_output)
  \* samples
  /\ (/\ x.req_kind # KindNone
      /\ y.req_kind # KindNone
      /\ x.req_output < y.req_output
      /\ y.req_phase # PhaseWaiting) =>
         Known(y) - 1 <= y.req_C
  \* decodes
  /\ (/\ x.req_kind # KindNone
      /\ y.req_kind # KindNone
      /\ x.req_phase = PhaseRunning
      /\ x.req_C < y.req_C) =>
         Known(x) - 1 <= x.req_C
  \* finishes
  /\ (/\ x.req_kind # KindNone
      /\ y.req_kind = KindNone
      /\ \/ x.req_kind = KindPlain /\ 0 <= z.step_published
         \/ y.session_open /\ x.session_history < y.session_history) =>
         \/ x.req_prompt <= x.req_C
         \/ /\ overlap
            /\ ~retract_keeps
            /\ x.req_phase = PhaseWaiting
            /\ 0 < x.req_output
            /\ ~x.slot_holding
  \* computes
  /\ ActorHasKv(x) /\ ActorHasKv(y) /\ OwnC(x) < OwnC(y) =>
         /\ y.req_phase = PhaseRunning
         /\ OwnE(y) = OwnE(x)
         /\ OwnQ(y) = OwnQ(x)
  \* prefills
  /\ (x.req_phase # PhaseRunning /\ y.req_phase = PhaseRunning => y.req_C <= Known(x))
  \* rounds
  /\ x.req_kind # KindNone /\ y.req_kind # KindNone /\ x.req_phase = PhaseRunning /\ HasKv(y) =>
         \/ y.req_C <= x.req_C + y.req_output - x.req_output
         \/ overlap /\ y.req_C < Known(x) + batches
  \* tells
  /\ x.req_kind # KindNone /\ y.req_kind # KindNone /\ 0 < y.req_output - x.req_output =>
         /\ \/ y.req_phase = PhaseRunning
            \/ x.req_phase = PhaseWaiting /\ y.req_phase = PhaseWaiting /\ 0 < x.req_rounds
         /\ OwnE(y) = OwnE(x)
         /\ OwnQ(y) = OwnQ(x)
         /\ overlap \/ x.req_phase # PhaseRunning \/ OwnC(x) < OwnC(y)
INV_KEEP_STEP(x, y) ==
  \* reserve
  /\ (x.req_phase = PhaseWaiting /\ y.req_phase = PhaseMatched => y.req_C + reserve <= Known(x))
  \* restores
  /\ ActorHasKv(x) /\ ActorHasKv(y) /\ x.req_phase = PhaseWaiting /\ y.req_phase = PhaseMatched =>
         Min(OwnC(x), Cut(Reusable(x), OwnE(x))) <= OwnC(y)
  \* ends
  /\ ActorHasKv(x) /\ ActorHasKv(y) /\ x.req_kind # KindNone /\ y.req_kind = KindNone =>
         (IF x.slot_lent /\ y.session_history = x.session_history THEN Min(x.slot_C, Min(OwnC(x), Cut(x.session_history, OwnE(x)))) ELSE Min(OwnC(x), Cut(y.session_history, OwnE(x)))) <= OwnC(y)
  \* runs
  /\ (/\ ActorHasKv(x)
      /\ ActorHasKv(y)
      /\ ~(x.req_phase = PhaseWaiting /\ y.req_phase = PhaseMatched)
      /\ ~(x.req_kind # KindNone /\ y.req_kind = KindNone)) =>
         (IF y.req_phase = PhaseWaiting THEN Min(OwnC(x), Cut(Known(x), OwnE(x))) ELSE OwnC(x)) <= OwnC(y)
  \* refused
  /\ (HasKv(x) /\ ~Begun(x) /\ y.req_phase = PhaseWaiting => y.slot_holding <=> x.slot_holding)
INV_SLACK_STEP(x, y) ==
  \* grows
  /\ (ActorHasKv(x) /\ ActorHasKv(y) /\ Ceil(OwnA(x)) < Ceil(OwnA(y)) => OwnA(y) <= Ceil(OwnC(y) + slack))
  \* tail
  /\ ~keeps_slack /\ x.req_phase = PhaseWaiting /\ y.req_phase = PhaseMatched /\ x.slot_holding =>
         OwnA(y) <= Ceil(Min(x.slot_A, Cut(Reusable(x), x.slot_E)))
  \* trims
  /\ (/\ ~keeps_slack
      /\ HasKv(x) \/ (x.slot_holding /\ x.session_history < x.slot_C)
      /\ x.req_kind # KindNone
      /\ y.req_kind = KindNone
      /\ y.slot_holding) =>
         y.slot_A <= Ceil(Max(Max(y.session_history, y.slot_E), IF x.slot_lent /\ y.session_history = x.session_history THEN x.slot_A ELSE 0))
  \* lent
  /\ x.slot_lent /\ y.slot_lent =>
         \/ y.slot_C = x.slot_C /\ y.slot_A = x.slot_A /\ y.slot_Q = x.slot_Q /\ y.slot_E = x.slot_E
         \/ y.slot_C = y.req_C /\ y.slot_A = y.req_A /\ y.slot_Q = y.req_Q /\ y.slot_E = y.req_E
  \* together
  /\ ActorHasKv(x) /\ ~ActorHasKv(y) =>
         y.full_evictable + y.full_protected - x.full_evictable - x.full_protected + y.full_available - x.full_available = Ceil(OwnA(x)) - OwnQ(x)
  \* alone
  /\ x.req_kind = KindPlain =>
         /\ (y.session_open <=> x.session_open)
         /\ (y.session_closing <=> x.session_closing)
         /\ (y.session_inflight <=> x.session_inflight)
         /\ y.session_history = x.session_history
         /\ (y.slot_holding <=> x.slot_holding)
         /\ (y.slot_lent <=> x.slot_lent)
         /\ y.slot_row = x.slot_row
         /\ y.slot_C = x.slot_C
         /\ y.slot_A = x.slot_A
         /\ y.slot_Q = x.slot_Q
         /\ y.slot_E = x.slot_E
         /\ (y.slot_locked <=> x.slot_locked)
INV_CURSOR_STEP(x, y) ==
  \* up
  /\ (ActorHasKv(x) /\ ActorHasKv(y) /\ OwnE(x) < OwnE(y) => Begun(x) /\ PhaseParked <= y.req_phase)
  \* far
  /\ ActorHasKv(x) /\ ActorHasKv(y) /\ OwnE(x) < OwnE(y) /\ HasKv(x) =>
         Floor(OwnC(x) - W) <= OwnE(y) + W + Ceil(1)
  \* back
  /\ (ActorHasKv(x) /\ ActorHasKv(y) => Min(OwnE(x), OwnC(y)) <= OwnE(y))
INV_QUEUED_STEP(x, y) ==
  \* slot
  /\ (/\ x.req_kind # KindNone
      /\ y.req_kind = KindNone
      /\ x.req_phase = PhaseWaiting
      /\ ~(x.slot_holding /\ x.session_history < x.slot_C)) =>
         /\ (y.slot_holding <=> x.slot_holding)
         /\ y.slot_A = x.slot_A
         /\ y.full_available = x.full_available
INV_LOCK_STEP(x, y) ==
  \* rises
  /\ y.full_protected - x.full_protected <= Max(0, LockSum(y) - LockSum(x))
  \* falls
  /\ 0 - (y.full_protected - x.full_protected) <= Max(0, LockSum(x) - LockSum(y))
  \* swa_rises
  /\ y.swa_protected - x.swa_protected <= (IF PhaseParked <= x.req_phase /\ PhaseParked <= y.req_phase THEN LockSum(y) ELSE Max(0, LockSum(y) - LockSum(x)))
  \* swa_falls
  /\ 0 - (y.swa_protected - x.swa_protected) <= (IF PhaseParked <= x.req_phase /\ PhaseParked <= y.req_phase THEN LockSum(x) ELSE Max(0, LockSum(x) - LockSum(y)))
  \* window
  /\ has_swa /\ x.req_phase = PhaseWaiting /\ y.req_phase = PhaseMatched /\ ~x.slot_holding =>
         y.req_Q - Floor(Max(0, y.req_Q - W)) <= y.swa_protected
INV_PUBLISH_STEP(x, y, z) ==
  \* turn
  /\ (/\ x.req_kind # KindNone
      /\ y.req_kind = KindNone
      /\ x.req_kind = KindTurn
      /\ 0 < y.full_evictable + y.full_protected - x.full_evictable - x.full_protected) =>
         PhaseParked <= x.req_phase
  \* plain
  /\ (/\ x.req_kind # KindNone
      /\ y.req_kind = KindNone
      /\ x.req_kind = KindPlain
      /\ 0 < y.full_evictable + y.full_protected - x.full_evictable - x.full_protected) =>
         x.req_phase = PhaseRunning
  \* answer
  /\ x.req_kind = KindPlain /\ 0 <= z.step_published /\ x.req_E <= x.req_Q =>
         Floor(Min(x.req_C, Certain(x))) <= z.step_published
  \* evicts
  /\ 0 - (y.full_evictable + y.full_protected - x.full_evictable - x.full_protected) <= z.step_evicted
  \* swa_evicts
  /\ 0 - (y.swa_evictable + y.swa_protected - x.swa_evictable - x.swa_protected) <= z.step_swa_evicted
  \* committed
  /\ y.full_evictable + y.full_protected - x.full_evictable - x.full_protected <= (IF ActorHasKv(x) THEN Max(0, Floor(Min(OwnC(x), IF HasKv(x) \/ x.session_inflight THEN Known(x) ELSE x.session_history)) - OwnQ(x)) ELSE 0)
  \* swa_committed
  /\ y.swa_evictable + y.swa_protected - x.swa_evictable - x.swa_protected <= (IF ActorHasKv(x) THEN Max(0, Floor(Min(OwnC(x), IF HasKv(x) \/ x.session_inflight THEN Known(x) ELSE x.session_history)) - Max(OwnQ(x), OwnE(x))) ELSE 0)
StatesHold(x) ==
  /\ INV_SUM_FULL(x) \/ Not("INV-SUM-FULL")
  /\ INV_SUM_SWA(x) \/ Not("INV-SUM-SWA")
  /\ INV_ROWS(x) \/ Not("INV-ROWS")
  /\ INV_ONCE(x) \/ Not("INV-ONCE")
  /\ INV_INFLIGHT(x) \/ Not("INV-INFLIGHT")
  /\ INV_ORDER(x) \/ Not("INV-ORDER")
  /\ INV_ALIGN(x) \/ Not("INV-ALIGN")
  /\ INV_CURSOR(x) \/ Not("INV-CURSOR")
  /\ INV_WINDOW(x) \/ Not("INV-WINDOW")
  /\ INV_COVER(x) \/ Not("INV-COVER")
  /\ INV_LOCK(x) \/ Not("INV-LOCK")
  /\ INV_DRAIN(x) \/ Not("INV-DRAIN")
  /\ INV_ABSENT(x) \/ Not("INV-ABSENT")
  /\ INV_KIND(x) \/ Not("INV-KIND")
  /\ INV_PHASE(x) \/ Not("INV-PHASE")
  /\ INV_LOAN(x) \/ Not("INV-LOAN")
  /\ INV_TOKENS(x) \/ Not("INV-TOKENS")
  /\ INV_ROUNDS(x) \/ Not("INV-ROUNDS")
StepHolds(x, y, z) ==
  /\ INV_ROWS_STEP(x, y) \/ Not("INV-ROWS-STEP")
  /\ INV_ALIGN_STEP(x, y) \/ Not("INV-ALIGN-STEP")
  /\ INV_INFLIGHT_STEP(x, y, z) \/ Not("INV-INFLIGHT-STEP")
  /\ INV_HISTORY(x, y, z) \/ Not("INV-HISTORY")
  /\ INV_LIFE_STEP(x, y, z) \/ Not("INV-LIFE-STEP")
  /\ INV_TOLD_STEP(x, y, z) \/ Not("INV-TOLD-STEP")
  /\ INV_ROUND_STEP(x, y) \/ Not("INV-ROUND-STEP")
  /\ INV_COVER_STEP(x, y, z) \/ Not("INV-COVER-STEP")
  /\ INV_KEEP_STEP(x, y) \/ Not("INV-KEEP-STEP")
  /\ INV_SLACK_STEP(x, y) \/ Not("INV-SLACK-STEP")
  /\ INV_CURSOR_STEP(x, y) \/ Not("INV-CURSOR-STEP")
  /\ INV_QUEUED_STEP(x, y) \/ Not("INV-QUEUED-STEP")
  /\ INV_LOCK_STEP(x, y) \/ Not("INV-LOCK-STEP")
  /\ INV_PUBLISH_STEP(x, y, z) \/ Not("INV-PUBLISH-STEP")


Holds ==
  LET share == Shares
      seen == [a \in Actors |-> Seen(a, share)]
  IN
  /\ ~broken
  /\ \A a \in Actors : StatesHold(seen[a])
  /\ PoolHolds(pages.full, seen, full_total, pools.full_available, pools.full_evictable,
       pools.full_protected, InTree_full, InOwn_full)
  /\ has_swa => PoolHolds(pages.swa, seen, swa_total, pools.swa_available, pools.swa_evictable,
       pools.swa_protected, InTree_swa, InOwn_swa)
  /\ \/ /\ freerows \cup UNION {RowsOf(seen[a]) : a \in Actors} = Lines
        /\ Cardinality(freerows) = pools.rows_free
        /\ pools.rows_free + Sum([a \in Actors |-> Cardinality(RowsOf(seen[a]))], Actors)
             = rows_total
     \/ Not("INV-ROW")
\* T-OPEN. A client opens a session with an empty history, no slot and no turn in flight.
T_OPEN(a, x) ==
  \* closed
  /\ ~x.session_open
  /\ x.req_kind = KindNone
  /\ LET y == [x EXCEPT !.session_open = TRUE, !.session_closing = FALSE, !.session_inflight = FALSE, !.session_history = 0] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {pages.full} :
        \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-CLOSE. A client closes a session that has no turn in flight. The slot is released at once.
T_CLOSE(a, x) ==
  \* open
  /\ x.session_open
  /\ ~x.session_closing
  \* idle
  /\ ~x.session_inflight
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= SlotLocks(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - SlotLocks(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(SlotLocks(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - SlotLocks(x)
        /\ LET y == [x EXCEPT !.slot_holding = FALSE, !.slot_lent = FALSE, !.slot_row = NoRow, !.slot_C = 0, !.slot_A = 0, !.slot_Q = 0, !.slot_E = 0, !.slot_locked = FALSE, !.session_open = FALSE, !.session_closing = FALSE, !.session_history = 0, !.full_available = x.full_available + Max(0, SlotPrivate(x)), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.slot_A) - Max(x.slot_Q, x.slot_E))), !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, SlotRows(x))] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> TRUE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = (freerows \cup (IF SlotRows(x) = 1 THEN {MyRow(x)} ELSE {}))
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Freed(l, a, x.slot_Q, Ceil(x.slot_A)) : l \in {pages.full}}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Freed(l, a, Max(x.slot_Q, x.slot_E), Ceil(x.slot_A)) : l \in {pages.swa}}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-CLOSE-DEFER. A client's close waits until the turn in flight ends. The session accepts no new turn.
T_CLOSE_DEFER(a, x) ==
  \* open
  /\ x.session_open
  /\ ~x.session_closing
  \* busy
  /\ x.session_inflight
  /\ LET y == [x EXCEPT !.session_closing = TRUE] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> TRUE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {pages.full} :
        \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-REAP. The engine closes a session that has no turn in flight. The slot is released. The spec has no clock: the suite checks that a close was deferred, or a timeout passed.
T_REAP(a, x) ==
  \* open
  /\ x.session_open
  \* idle
  /\ ~x.session_inflight
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= SlotLocks(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - SlotLocks(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(SlotLocks(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - SlotLocks(x)
        /\ LET y == [x EXCEPT !.slot_holding = FALSE, !.slot_lent = FALSE, !.slot_row = NoRow, !.slot_C = 0, !.slot_A = 0, !.slot_Q = 0, !.slot_E = 0, !.slot_locked = FALSE, !.session_open = FALSE, !.session_closing = FALSE, !.session_history = 0, !.full_available = x.full_available + Max(0, SlotPrivate(x)), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.slot_A) - Max(x.slot_Q, x.slot_E))), !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, SlotRows(x))] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = (freerows \cup (IF SlotRows(x) = 1 THEN {MyRow(x)} ELSE {}))
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Freed(l, a, x.slot_Q, Ceil(x.slot_A)) : l \in {pages.full}}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Freed(l, a, Max(x.slot_Q, x.slot_E), Ceil(x.slot_A)) : l \in {pages.swa}}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-SUBMIT. A client submits a turn. Its prompt is the history plus new tokens. The turn is in flight.
T_SUBMIT(a, x) ==
  \* open
  /\ x.session_open
  /\ ~x.session_closing
  \* idle
  /\ ~x.session_inflight
  /\ \E new \in News :
     \* nonempty
     /\ 0 <= new
     /\ 1 <= x.session_history + new
     /\ LET y == [x EXCEPT !.req_kind = KindTurn, !.req_phase = PhaseWaiting, !.req_prompt = x.session_history + new, !.req_output = 0, !.session_inflight = TRUE] IN
        /\ Within(y)
        /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
        /\ pools' = PoolsOf(y)
        /\ broken' = ~StepHolds(x, y, [step_new |-> new, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
        /\ freerows' = freerows
        /\ \E one \in {pages.full} :
           \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
              pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-REJECT. A turn sent to a busy or closing session is detached as a stub. The session stays unchanged.
T_REJECT(a, x) ==
  \* open
  /\ x.session_open
  \* busy
  /\ x.session_inflight \/ x.session_closing
  /\ \E prompt \in Prompts :
     \* prompt
     /\ 0 <= prompt
     /\ LET y == x IN
        /\ Within(y)
        /\ \E b \in Actors \ {a} :
             /\ actors[b] = Nobody
             /\ actors' = [actors EXCEPT ![a] = OwnOf(y), ![b] = Alone(prompt)]
        /\ pools' = PoolsOf(y)
        /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> TRUE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
        /\ freerows' = freerows
        /\ \E one \in {pages.full} :
           \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
              pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-DOOM. A turn doomed to be aborted is detached from its session before the match. The slot stays.
T_DOOM(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  \* waiting
  /\ x.req_phase = PhaseWaiting
  \* covered
  /\ (x.slot_holding => x.slot_C <= x.session_history)
  /\ \E prompt \in Prompts :
     \* prompt
     /\ 0 <= prompt
     /\ LET y == [x EXCEPT !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.session_inflight = FALSE] IN
        /\ Within(y)
        /\ \E b \in Actors \ {a} :
             /\ actors[b] = Nobody
             /\ actors' = [actors EXCEPT ![a] = OwnOf(y), ![b] = Alone(prompt)]
        /\ pools' = PoolsOf(y)
        /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> TRUE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
        /\ freerows' = freerows
        /\ \E one \in {pages.full} :
           \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
              pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-PLAIN-SUBMIT. A client submits a request without a session. The request waits.
T_PLAIN_SUBMIT(a, x) ==
  \* new
  /\ x.req_kind = KindNone
  \* no_session
  /\ ~x.session_open
  /\ ~x.session_inflight
  /\ \E prompt \in Prompts :
     \* nonempty
     /\ 1 <= prompt
     /\ LET y == [x EXCEPT !.req_kind = KindPlain, !.req_phase = PhaseWaiting, !.req_prompt = prompt, !.req_output = 0] IN
        /\ Within(y)
        /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
        /\ pools' = PoolsOf(y)
        /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
        /\ freerows' = freerows
        /\ \E one \in {pages.full} :
           \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
              pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-MATCH. If a request has no slot to restore, the scheduler locks its prefix in the tree: Q = m. In the sliding-window pool, the lock covers at least the window at the end of the prefix.
T_MATCH(a, x) ==
  \* waiting
  /\ x.req_phase = PhaseWaiting
  \* no_slot
  /\ x.req_kind = KindPlain \/ (x.req_kind = KindTurn /\ ~x.slot_holding)
  /\ \E m \in Tokens :
     \* m
     /\ 0 <= m /\ m <= Known(x) - reserve
     /\ Aligned(m)
     /\ m <= width
     /\ \E locked \in Tokens :
        \* locked
        /\ 0 <= locked /\ locked <= m /\ m <= x.full_protected + locked
        /\ Aligned(locked)
        \* full_evictable
        /\ Max(0, locked) <= x.full_evictable
        /\ \E swa_locked \in SwaTokens :
           \* swa_locked
           /\ 0 <= swa_locked /\ swa_locked <= IfSwa(m)
           /\ Aligned(swa_locked)
           \* window
           /\ IfSwa(m - Floor(Max(0, m - W))) <= x.swa_protected + swa_locked
           \* swa_evictable
           /\ IfSwa(Max(0, swa_locked)) <= x.swa_evictable
           /\ LET y == [x EXCEPT !.req_phase = PhaseMatched, !.req_C = m, !.req_A = m, !.req_Q = m, !.req_E = 0, !.req_locked = TRUE, !.req_rounds = 0, !.full_evictable = x.full_evictable - Max(0, locked), !.full_protected = x.full_protected + Max(0, locked), !.swa_evictable = x.swa_evictable - IfSwa(Max(0, swa_locked)), !.swa_protected = x.swa_protected + IfSwa(Max(0, swa_locked))] IN
              /\ Within(y)
              /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
              /\ pools' = PoolsOf(y)
              /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
              /\ freerows' = freerows
              /\ \E one \in UNION {Locked(l, a, locked, y, InTree_full) : l \in UNION {Pointed(l, a, 0, m, y, InTree_full) : l \in {pages.full}}} :
                 \E two \in IF has_swa THEN UNION {Locked(l, a, swa_locked, y, InTree_swa) : l \in UNION {Pointed(l, a, 0, m, y, InTree_swa) : l \in {pages.swa}}} ELSE {pages.swa} :
                    pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-RESTORE. The scheduler lends the slot's KV to the session's turn. First, free_tail cuts the KV to the reusable length and frees the whole pages past the cut.
T_RESTORE(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  /\ x.req_phase = PhaseWaiting
  \* holding
  /\ x.slot_holding
  \* not_lent
  /\ ~x.slot_lent
  \* prefix
  /\ x.slot_Q <= Reusable(x)
  \* window
  /\ Min(x.slot_E, Cut(Reusable(x), x.slot_E)) <= Max(0, Cut(Reusable(x), x.slot_E) - W)
  /\ LET y == [x EXCEPT !.slot_C = Min(x.slot_C, Cut(Reusable(x), x.slot_E)), !.slot_A = Min(x.slot_A, IF keeps_slack /\ x.slot_E <= Reusable(x) THEN x.slot_A ELSE Cut(Reusable(x), x.slot_E)), !.slot_E = Min(x.slot_E, Cut(Reusable(x), x.slot_E)), !.req_C = Min(x.slot_C, Cut(Reusable(x), x.slot_E)), !.req_A = Min(x.slot_A, IF keeps_slack /\ x.slot_E <= Reusable(x) THEN x.slot_A ELSE Cut(Reusable(x), x.slot_E)), !.req_E = Min(x.slot_E, Cut(Reusable(x), x.slot_E)), !.req_row = x.slot_row, !.req_Q = x.slot_Q, !.req_locked = FALSE, !.slot_lent = TRUE, !.req_phase = PhaseMatched, !.full_available = x.full_available + Max(0, Ceil(x.slot_A) - Ceil(IF keeps_slack /\ x.slot_E <= Reusable(x) THEN x.slot_A ELSE Cut(Reusable(x), x.slot_E))), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.slot_A) - Max(Ceil(IF keeps_slack /\ x.slot_E <= Reusable(x) THEN x.slot_A ELSE Cut(Reusable(x), x.slot_E)), x.slot_E)))] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {Freed(l, a, Ceil(IF keeps_slack /\ x.slot_E <= Reusable(x) THEN x.slot_A ELSE Cut(Reusable(x), x.slot_E)), Ceil(x.slot_A)) : l \in {pages.full}} :
        \E two \in IF has_swa THEN {Freed(l, a, Max(Ceil(IF keeps_slack /\ x.slot_E <= Reusable(x) THEN x.slot_A ELSE Cut(Reusable(x), x.slot_E)), x.slot_E), Ceil(x.slot_A)) : l \in {pages.swa}} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-DISCARD. The scheduler releases a slot that is not on loan. The session stays open. The spec allows a discard at any time. The suite checks that memory or rows were short, or that no KV was reusable.
T_DISCARD(a, x) ==
  \* holding
  /\ x.slot_holding
  \* not_lent
  /\ ~x.slot_lent
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= SlotLocks(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - SlotLocks(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(SlotLocks(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - SlotLocks(x)
        /\ LET y == [x EXCEPT !.slot_holding = FALSE, !.slot_lent = FALSE, !.slot_row = NoRow, !.slot_C = 0, !.slot_A = 0, !.slot_Q = 0, !.slot_E = 0, !.slot_locked = FALSE, !.full_available = x.full_available + Max(0, SlotPrivate(x)), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.slot_A) - Max(x.slot_Q, x.slot_E))), !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, 1)] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = (freerows \cup (IF 1 = 1 THEN {MyRow(x)} ELSE {}))
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Freed(l, a, x.slot_Q, Ceil(x.slot_A)) : l \in {pages.full}}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Freed(l, a, Max(x.slot_Q, x.slot_E), Ceil(x.slot_A)) : l \in {pages.swa}}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-REFUSE. The scheduler does not admit a matched request, which waits again. If a slot is on loan, the loan ends and the slot holds the KV as cut by free_tail. Without a slot, the tree lock is dropped.
T_REFUSE(a, x) ==
  \* matched
  /\ x.req_phase = PhaseMatched
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= ReqLocks(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - ReqLocks(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(ReqLocks(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - ReqLocks(x)
        /\ LET y == [x EXCEPT !.req_phase = PhaseWaiting, !.req_rounds = (IF retract_keeps THEN 0 ELSE x.req_rounds), !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.slot_lent = FALSE, !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u))] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = freerows
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {pages.full}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {pages.swa}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-EXTEND. The scheduler prefills up to position t, and may allocate for the drafts of the next round. The last chunk may sample one token. Under overlap scheduling, this token becomes known with a T-RESULT.
T_EXTEND(a, x) ==
  \* matched
  /\ x.req_phase = PhaseMatched \/ x.req_phase = PhaseParked
  \* a_row
  /\ Max(0, IF x.req_row = NoRow THEN 1 ELSE 0) <= x.rows_free
  /\ \E t \in 0 .. width :
     \* t
     /\ x.req_C <= t /\ t <= Known(x)
     /\ \E ahead \in 0 .. slack :
        \* ahead
        /\ 0 <= ahead /\ ahead <= slack
        /\ t + ahead <= width
        \* full_available
        /\ Max(0, Ceil(t + ahead) - Ceil(x.req_A)) <= x.full_available
        \* swa_available
        /\ IfSwa(Max(0, Ceil(t + ahead) - Ceil(x.req_A))) <= x.swa_available
        /\ \E sampled \in {0, 1} :
           \* sampled
           /\ 0 <= sampled /\ sampled <= 1
           /\ (sampled = 1 => t = Known(x))
           \* overlap
           /\ (overlap => sampled = 0)
           /\ \E told \in {0, 1} :
              \* told
              /\ 0 <= told /\ told <= sampled
              \* ends
              /\ (x.req_kind = KindTurn /\ told < sampled => x.req_Q <= Answered(x) + told)
              /\ \E row \in Lines :
                 \* row
                 /\ 0 <= row
                 /\ (x.req_row # NoRow => row = x.req_row)
                 /\ LET y == [x EXCEPT !.req_phase = PhaseRunning, !.req_output = x.req_output + sampled, !.req_told = x.req_told + told, !.req_rounds = (IF overlap /\ t = Known(x) THEN 1 ELSE 0), !.req_row = row, !.req_C = t, !.req_A = Max(x.req_A, t + ahead), !.rows_free = x.rows_free - Max(0, IF x.req_row = NoRow THEN 1 ELSE 0), !.full_available = x.full_available - Max(0, Ceil(t + ahead) - Ceil(x.req_A)), !.swa_available = x.swa_available - IfSwa(Max(0, Ceil(t + ahead) - Ceil(x.req_A)))] IN
                    /\ Within(y)
                    /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
                    /\ pools' = PoolsOf(y)
                    /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> t, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
                    /\ ((IF x.req_row = NoRow THEN 1 ELSE 0) = 1 /\ "fresh" \in Kept) => row \in freerows
                    /\ freerows' = (freerows \ (IF (IF x.req_row = NoRow THEN 1 ELSE 0) = 1 THEN {row} ELSE {}))
                    /\ \E one \in {Taken(l, a, Ceil(x.req_A), Ceil(Ceil(t + ahead))) : l \in {pages.full}} :
                       \E two \in IF has_swa THEN {Taken(l, a, Ceil(x.req_A), Ceil(Ceil(t + ahead))) : l \in {pages.swa}} ELSE {pages.swa} :
                          pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-PARK. A request between two prefill chunks is parked: in no batch, but holding its KV.
T_PARK(a, x) ==
  \* running
  /\ x.req_phase = PhaseRunning
  \* unfinished
  /\ x.req_C < Known(x)
  \* answering
  /\ Answering(x)
  /\ x.req_rounds = 0
  /\ LET y == [x EXCEPT !.req_phase = PhaseParked] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {pages.full} :
        \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-INSERT. The scheduler publishes the request's valid KV up to q. A request without a session publishes all whole pages of prompt and answer, except for tokens of the last rounds. Where the tree has the tokens, the row's copies are freed and the row points to the tree. The tree takes the other pages. The lock covers [0, q), or at least the window in the sliding-window pool. A turn whose slot is on loan publishes only under loan_publishes. The slot gets the turn's lengths.
T_INSERT(a, x) ==
  \* begun
  /\ Begun(x)
  \* not_lent
  /\ (x.slot_lent => loan_publishes)
  /\ \E q \in Tokens :
     \* history
     /\ (x.req_kind = KindTurn /\ ~Answering(x) => q <= Answered(x))
     \* answer
     /\ (x.req_kind = KindPlain /\ x.req_E <= x.req_Q => Floor(Min(x.req_C, Certain(x))) <= q)
     \* q
     /\ x.req_Q <= q /\ q <= Floor(Min(x.req_C, Known(x)))
     /\ Aligned(q)
     /\ \E dup \in Tokens :
        \* dup
        /\ 0 <= dup /\ dup <= q - x.req_Q
        /\ Aligned(dup)
        /\ \E swa_dup \in SwaTokens :
           \* swa_dup
           /\ 0 <= swa_dup /\ swa_dup <= Max(0, x.req_Q + dup - Max(x.req_Q, x.req_E))
           /\ Aligned(swa_dup)
           /\ \E locked \in Tokens :
              \* locked
              /\ q - x.req_Q - dup <= locked /\ locked <= q - x.req_Q
              /\ Aligned(locked)
              \* protects
              /\ q <= x.full_protected + locked
              \* full_evictable
              /\ Max(0, locked) <= x.full_evictable + Max(0, q - (x.req_Q + dup))
              /\ \E swa_locked \in SwaTokens :
                 \* swa_locked
                 /\ 0 <= swa_locked /\ swa_locked <= IfSwa(q)
                 /\ Aligned(swa_locked)
                 \* swa_evictable
                 /\ IfSwa(Max(0, swa_locked)) <= x.swa_evictable + IfSwa(Max(0, q - (Max(x.req_Q, x.req_E) + swa_dup)))
                 /\ \E swa_u \in SwaTokens :
                    \* swa_u
                    /\ 0 <= swa_u /\ swa_u <= IfSwa(x.req_Q)
                    /\ Aligned(swa_u)
                    \* swa_bounded
                    /\ swa_u <= x.swa_protected
                    /\ x.swa_protected - swa_u + swa_locked <= x.frame_lock_sum + q
                    /\ LET y == [x EXCEPT !.req_Q = q, !.slot_Q = (IF x.slot_lent THEN q ELSE x.slot_Q), !.slot_C = (IF x.slot_lent THEN x.req_C ELSE x.slot_C), !.slot_A = (IF x.slot_lent THEN x.req_A ELSE x.slot_A), !.slot_E = (IF x.slot_lent THEN x.req_E ELSE x.slot_E), !.full_available = x.full_available + Max(0, x.req_Q + dup - x.req_Q), !.swa_available = x.swa_available + IfSwa(Max(0, Max(x.req_Q, x.req_E) + swa_dup - Max(x.req_Q, x.req_E))), !.full_evictable = x.full_evictable + Max(0, q - (x.req_Q + dup)) - Max(0, locked) + Max(0, 0), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, q - (Max(x.req_Q, x.req_E) + swa_dup))) - IfSwa(Max(0, swa_locked)) + IfSwa(Max(0, swa_u)), !.full_protected = x.full_protected + Max(0, locked) - Max(0, 0), !.swa_protected = x.swa_protected + IfSwa(Max(0, swa_locked)) - IfSwa(Max(0, swa_u))] IN
                       /\ Within(y)
                       /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
                       /\ pools' = PoolsOf(y)
                       /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> q, step_evicted |-> 0, step_swa_evicted |-> 0])
                       /\ freerows' = freerows
                       /\ \E one \in UNION {Locked(l, a, locked, y, InTree_full) : l \in UNION {Pointed(l, a, x.req_Q, x.req_Q + dup, y, InTree_full) : l \in {Shared(l, a, x.req_Q + dup, q) : l \in {Freed(l, a, x.req_Q, x.req_Q + dup) : l \in {pages.full}}}}} :
                          \E two \in IF has_swa THEN UNION {Locked(l, a, swa_locked, y, InTree_swa) : l \in UNION {Unlocked(l, a, swa_u, y, InTree_swa, TRUE) : l \in UNION {Pointed(l, a, Max(x.req_Q, x.req_E), Max(x.req_Q, x.req_E) + swa_dup, y, InTree_swa) : l \in {Shared(l, a, Max(x.req_Q, x.req_E) + swa_dup, q) : l \in {Freed(l, a, Max(x.req_Q, x.req_E), Max(x.req_Q, x.req_E) + swa_dup) : l \in {pages.swa}}}}}} ELSE {pages.swa} :
                             pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-DECODE. A decoding round allocates d positions and commits k tokens. Plain decoding has d = k = 1. A speculative round may commit KV in memory that an earlier round allocated. A round after the answer's end tells the client nothing. A tree of drafts counts as consecutive positions: the spec does not model its branches.
T_DECODE(a, x) ==
  \* running
  /\ x.req_phase = PhaseRunning
  \* prefilled
  /\ Known(x) - 1 <= x.req_C
  \* overlap
  /\ ~overlap
  /\ \E at \in 0 .. width :
     \* at
     /\ at = Known(x)
     /\ \E d \in Drafts :
        \* d
        /\ 0 <= d
        \* width
        /\ x.req_A + d <= width
        \* full_available
        /\ Max(0, Ceil(x.req_A + d) - Ceil(x.req_A)) <= x.full_available
        \* swa_available
        /\ IfSwa(Max(0, Ceil(x.req_A + d) - Ceil(x.req_A))) <= x.swa_available
        /\ \E k \in Drafts :
           \* k
           /\ 0 <= k
           /\ x.req_C + k <= x.req_A + d
           \* slack
           /\ x.req_A + d <= Max(x.req_A, x.req_C + k + slack)
           /\ \E told \in {0, 1} :
              \* answering
              /\ Answering(x) \/ told = 0
              \* told
              /\ 0 <= told /\ told <= k
              \* ends
              /\ (x.req_kind = KindTurn /\ told < k => x.req_Q <= Answered(x) + told)
              /\ LET y == [x EXCEPT !.req_A = x.req_A + d, !.req_C = x.req_C + k, !.req_output = x.req_output + k, !.req_told = x.req_told + told, !.full_available = x.full_available - Max(0, Ceil(x.req_A + d) - Ceil(x.req_A)), !.swa_available = x.swa_available - IfSwa(Max(0, Ceil(x.req_A + d) - Ceil(x.req_A)))] IN
                 /\ Within(y)
                 /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
                 /\ pools' = PoolsOf(y)
                 /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> at, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
                 /\ freerows' = freerows
                 /\ \E one \in {Taken(l, a, Ceil(x.req_A), Ceil(Ceil(x.req_A + d))) : l \in {pages.full}} :
                    \E two \in IF has_swa THEN {Taken(l, a, Ceil(x.req_A), Ceil(Ceil(x.req_A + d))) : l \in {pages.swa}} ELSE {pages.swa} :
                       pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-LAUNCH. The scheduler launches a decoding round before earlier results are known. The round allocates d positions and computes the KV of k tokens. Tokens that are not yet known were sampled by earlier rounds.
T_LAUNCH(a, x) ==
  \* running
  /\ x.req_phase = PhaseRunning
  \* prefilled
  /\ Known(x) - 1 <= x.req_C
  \* overlap
  /\ overlap
  \* answering
  /\ Answering(x)
  \* rounds
  /\ x.req_rounds < batches
  /\ \E d \in Drafts :
     \* d
     /\ 0 <= d
     \* width
     /\ x.req_A + d <= width
     \* full_available
     /\ Max(0, Ceil(x.req_A + d) - Ceil(x.req_A)) <= x.full_available
     \* swa_available
     /\ IfSwa(Max(0, Ceil(x.req_A + d) - Ceil(x.req_A))) <= x.swa_available
     /\ \E k \in Drafts :
        \* k
        /\ 0 <= k
        /\ x.req_C + k <= x.req_A + d
        \* slack
        /\ x.req_A + d <= Max(x.req_A, x.req_C + k + slack)
        \* ahead
        /\ x.req_C + k <= Known(x) + x.req_rounds
        /\ LET y == [x EXCEPT !.req_A = x.req_A + d, !.req_C = x.req_C + k, !.req_rounds = x.req_rounds + 1, !.full_available = x.full_available - Max(0, Ceil(x.req_A + d) - Ceil(x.req_A)), !.swa_available = x.swa_available - IfSwa(Max(0, Ceil(x.req_A + d) - Ceil(x.req_A)))] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = freerows
           /\ \E one \in {Taken(l, a, Ceil(x.req_A), Ceil(Ceil(x.req_A + d))) : l \in {pages.full}} :
              \E two \in IF has_swa THEN {Taken(l, a, Ceil(x.req_A), Ceil(Ceil(x.req_A + d))) : l \in {pages.swa}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-RESULT. The result of a launched round arrives, and the sampled tokens become known. A speculative round commits the KV of k tokens. KV ahead of the known tokens is then of rounds without a result.
T_RESULT(a, x) ==
  \* overlap
  /\ overlap
  \* running
  /\ x.req_phase = PhaseRunning
  \* answering
  /\ Answering(x)
  \* rounds
  /\ 1 <= x.req_rounds
  /\ \E at \in 0 .. width :
     \* at
     /\ at = Known(x)
     /\ \E k \in Drafts :
        \* k
        /\ 0 <= k
        /\ x.req_C + k <= x.req_A
        /\ \E sampled \in {0, 1} :
           \* sampled
           /\ Max(k, 1) <= sampled
           /\ Known(x) + sampled <= x.req_C + k + 1
           \* ahead
           /\ x.req_C + k + 2 <= Known(x) + sampled + x.req_rounds
           /\ \E told \in {0, 1} :
              \* told
              /\ 0 <= told /\ told <= sampled
              \* ends
              /\ (x.req_kind = KindTurn /\ told < sampled => x.req_Q <= Answered(x) + told)
              /\ LET y == [x EXCEPT !.req_C = x.req_C + k, !.req_output = x.req_output + sampled, !.req_told = x.req_told + told, !.req_rounds = x.req_rounds - 1] IN
                 /\ Within(y)
                 /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
                 /\ pools' = PoolsOf(y)
                 /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> at, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
                 /\ freerows' = freerows
                 /\ \E one \in {pages.full} :
                    \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
                       pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-LATE-RESULT. A retraction wiped a request while rounds were under way. The result of such a round arrives while the request waits, and the sampled tokens become known.
T_LATE_RESULT(a, x) ==
  \* overlap
  /\ overlap
  /\ ~retract_keeps
  \* waiting
  /\ x.req_phase = PhaseWaiting
  \* rounds
  /\ 1 <= x.req_rounds
  /\ \E at \in 0 .. width :
     \* at
     /\ at = Known(x)
     /\ \E sampled \in {0, 1} :
        \* sampled
        /\ 1 <= sampled
        /\ LET y == [x EXCEPT !.req_output = x.req_output + sampled, !.req_told = x.req_told + sampled, !.req_rounds = x.req_rounds - 1] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> at, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = freerows
           /\ \E one \in {pages.full} :
              \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-SWA-ADVANCE. The SWA cursor moves up to e. SWA pages below e, which no later token reads, are freed.
T_SWA_ADVANCE(a, x) ==
  \* swa
  /\ has_swa
  /\ Begun(x)
  /\ \E e \in Tokens :
     \* e
     /\ x.req_E < e /\ e <= Floor(x.req_C - W)
     /\ Aligned(e)
     \* far
     /\ Floor(x.req_C - W) <= e + W + Ceil(1)
     /\ LET y == [x EXCEPT !.req_E = e, !.full_available = x.full_available + Max(0, 0), !.swa_available = x.swa_available + IfSwa(Max(0, e - Max(x.req_Q, x.req_E)))] IN
        /\ Within(y)
        /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
        /\ pools' = PoolsOf(y)
        /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
        /\ freerows' = freerows
        /\ \E one \in {pages.full} :
           \E two \in IF has_swa THEN {Freed(l, a, Max(x.req_Q, x.req_E), e) : l \in {pages.swa}} ELSE {pages.swa} :
              pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-SAVE. A turn finishes. The history is now its prompt and the tokens that its client was told. trim cuts the KV to the history. The slot takes the KV, the row and the lock.
T_SAVE(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  /\ x.session_inflight
  \* running
  /\ x.req_phase = PhaseRunning
  \* prefilled
  /\ x.req_prompt <= x.req_C
  \* published
  /\ x.req_Q <= Answered(x)
  /\ LET y == [x EXCEPT !.slot_holding = TRUE, !.slot_lent = FALSE, !.slot_row = x.req_row, !.slot_Q = x.req_Q, !.slot_locked = TRUE, !.slot_C = Min(x.req_C, Cut(Answered(x), x.req_E)), !.slot_A = Min(x.req_A, IF keeps_slack /\ x.req_E <= Answered(x) THEN x.req_A ELSE Cut(Answered(x), x.req_E)), !.slot_E = Min(x.req_E, Cut(Answered(x), x.req_E)), !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.session_inflight = FALSE, !.session_history = Answered(x), !.full_available = x.full_available + Max(0, Ceil(x.req_A) - Ceil(IF keeps_slack /\ x.req_E <= Answered(x) THEN x.req_A ELSE Cut(Answered(x), x.req_E))), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.req_A) - Max(Ceil(IF keeps_slack /\ x.req_E <= Answered(x) THEN x.req_A ELSE Cut(Answered(x), x.req_E)), x.req_E)))] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> TRUE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {Freed(l, a, Ceil(IF keeps_slack /\ x.req_E <= Answered(x) THEN x.req_A ELSE Cut(Answered(x), x.req_E)), Ceil(x.req_A)) : l \in {pages.full}} :
        \E two \in IF has_swa THEN {Freed(l, a, Max(Ceil(IF keeps_slack /\ x.req_E <= Answered(x) THEN x.req_A ELSE Cut(Answered(x), x.req_E)), x.req_E), Ceil(x.req_A)) : l \in {pages.swa}} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-LATE-FINISH. A request ends by a late result: the answer is complete. A turn's history is now its prompt and the tokens that its client was told. The request has no KV, and leaves no slot.
T_LATE_FINISH(a, x) ==
  \* overlap
  /\ overlap
  /\ ~retract_keeps
  \* waiting
  /\ x.req_phase = PhaseWaiting
  \* no_slot
  /\ ~x.slot_holding
  \* output
  /\ 1 <= x.req_output
  /\ LET y == [x EXCEPT !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.session_inflight = FALSE, !.session_history = (IF x.req_kind = KindTurn THEN Answered(x) ELSE x.session_history)] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> TRUE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {pages.full} :
        \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-ABORT. A client aborts a matched, parked or running turn. The turn's private KV, row and lock are released, and the slot is removed. The history stays as the last finished turn left it.
T_ABORT(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  \* has_kv
  /\ HasKv(x)
  \* own_slot
  /\ (x.slot_holding => x.slot_lent)
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= LocksEither(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - LocksEither(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(LocksEither(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - LocksEither(x)
        /\ LET y == [x EXCEPT !.slot_holding = FALSE, !.slot_lent = FALSE, !.slot_row = NoRow, !.slot_C = 0, !.slot_A = 0, !.slot_Q = 0, !.slot_E = 0, !.slot_locked = FALSE, !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.session_inflight = FALSE, !.full_available = x.full_available + Max(0, ReqPrivate(x)), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.req_A) - Max(x.req_Q, x.req_E))), !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, IF x.req_row # NoRow THEN 1 ELSE 0)] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = (freerows \cup (IF (IF x.req_row # NoRow THEN 1 ELSE 0) = 1 THEN {MyRow(x)} ELSE {}))
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Freed(l, a, x.req_Q, Ceil(x.req_A)) : l \in {pages.full}}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Freed(l, a, Max(x.req_Q, x.req_E), Ceil(x.req_A)) : l \in {pages.swa}}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-ABORT-PUBLISH. A client aborts a running or parked turn as in T-ABORT, but KV in [Q, q) is published. The tree takes the pages that it lacks, and the row's duplicates of tree pages are freed.
T_ABORT_PUBLISH(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  \* has_kv
  /\ HasKv(x)
  \* own_slot
  /\ (x.slot_holding => x.slot_lent)
  \* begun
  /\ Begun(x)
  \* publishes
  /\ abort_publishes
  /\ \E q \in Tokens :
     \* q
     /\ x.req_Q <= q /\ q <= Floor(Min(x.req_C, Known(x)))
     /\ Aligned(q)
     /\ \E dup \in Tokens :
        \* dup
        /\ 0 <= dup /\ dup <= q - x.req_Q
        /\ Aligned(dup)
        /\ \E swa_dup \in SwaTokens :
           \* swa_dup
           /\ 0 <= swa_dup /\ swa_dup <= Max(0, x.req_Q + dup - Max(x.req_Q, x.req_E))
           /\ Aligned(swa_dup)
           /\ \E u \in Tokens :
              \* u
              /\ 0 <= u /\ u <= LocksEither(x)
              /\ Aligned(u)
              \* u_others
              /\ x.frame_lock_max <= x.full_protected - u
              /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - LocksEither(x)
              /\ \E swa_u \in SwaTokens :
                 \* swa_u
                 /\ 0 <= swa_u /\ swa_u <= IfSwa(LocksEither(x))
                 /\ Aligned(swa_u)
                 \* swa_u_others
                 /\ 0 <= x.swa_protected - swa_u
                 /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - LocksEither(x)
                 /\ LET y == [x EXCEPT !.slot_holding = FALSE, !.slot_lent = FALSE, !.slot_row = NoRow, !.slot_C = 0, !.slot_A = 0, !.slot_Q = 0, !.slot_E = 0, !.slot_locked = FALSE, !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.session_inflight = FALSE, !.full_available = x.full_available + Max(0, x.req_Q + dup - x.req_Q) + Max(0, Ceil(x.req_A) - q), !.swa_available = x.swa_available + IfSwa(Max(0, Max(x.req_Q, x.req_E) + swa_dup - Max(x.req_Q, x.req_E))) + IfSwa(Max(0, Ceil(x.req_A) - Max(q, x.req_E))), !.full_evictable = x.full_evictable + Max(0, q - (x.req_Q + dup)) + Max(0, u), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, q - (Max(x.req_Q, x.req_E) + swa_dup))) + IfSwa(Max(0, swa_u)), !.full_protected = x.full_protected - Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, IF x.req_row # NoRow THEN 1 ELSE 0)] IN
                    /\ Within(y)
                    /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
                    /\ pools' = PoolsOf(y)
                    /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> q, step_evicted |-> 0, step_swa_evicted |-> 0])
                    /\ freerows' = (freerows \cup (IF (IF x.req_row # NoRow THEN 1 ELSE 0) = 1 THEN {MyRow(x)} ELSE {}))
                    /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Shared(l, a, x.req_Q + dup, q) : l \in {Freed(l, a, q, Ceil(x.req_A)) : l \in {Freed(l, a, x.req_Q, x.req_Q + dup) : l \in {pages.full}}}}} :
                       \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Shared(l, a, Max(x.req_Q, x.req_E) + swa_dup, q) : l \in {Freed(l, a, Max(q, x.req_E), Ceil(x.req_A)) : l \in {Freed(l, a, Max(x.req_Q, x.req_E), Max(x.req_Q, x.req_E) + swa_dup) : l \in {pages.swa}}}}} ELSE {pages.swa} :
                          pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-OOM. The scheduler aborts a turn for lack of memory, as in T-ABORT. No other request has private KV, which a retraction could free.
T_OOM(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  \* has_kv
  /\ HasKv(x)
  \* own_slot
  /\ (x.slot_holding => x.slot_lent)
  \* alone
  /\ x.frame_uncached = 0 /\ x.frame_swa_uncached = 0
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= LocksEither(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - LocksEither(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(LocksEither(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - LocksEither(x)
        /\ LET y == [x EXCEPT !.slot_holding = FALSE, !.slot_lent = FALSE, !.slot_row = NoRow, !.slot_C = 0, !.slot_A = 0, !.slot_Q = 0, !.slot_E = 0, !.slot_locked = FALSE, !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.session_inflight = FALSE, !.full_available = x.full_available + Max(0, ReqPrivate(x)), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.req_A) - Max(x.req_Q, x.req_E))), !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, IF x.req_row # NoRow THEN 1 ELSE 0)] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = (freerows \cup (IF (IF x.req_row # NoRow THEN 1 ELSE 0) = 1 THEN {MyRow(x)} ELSE {}))
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Freed(l, a, x.req_Q, Ceil(x.req_A)) : l \in {pages.full}}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Freed(l, a, Max(x.req_Q, x.req_E), Ceil(x.req_A)) : l \in {pages.swa}}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-ABORT-WAITING. A client aborts a waiting turn, which holds no memory. Nothing is freed.
T_ABORT_WAITING(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  \* waiting
  /\ x.req_phase = PhaseWaiting
  \* not_lent
  /\ ~x.slot_lent
  \* covered
  /\ (x.slot_holding => x.slot_C <= x.session_history)
  /\ LET y == [x EXCEPT !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.session_inflight = FALSE] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {pages.full} :
        \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-ABORT-PARTIAL. A client aborts a waiting turn whose slot has KV past the history. The slot is cut to the history. If the protected prefix is longer than the history, T-DISCARD comes first.
T_ABORT_PARTIAL(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  \* waiting
  /\ x.req_phase = PhaseWaiting
  \* not_lent
  /\ ~x.slot_lent
  \* partial
  /\ x.slot_holding
  /\ x.session_history < x.slot_C
  \* possible
  /\ x.slot_Q <= x.session_history
  /\ LET y == [x EXCEPT !.slot_C = Min(x.slot_C, Cut(x.session_history, x.slot_E)), !.slot_A = Min(x.slot_A, IF keeps_slack /\ x.slot_E <= x.session_history THEN x.slot_A ELSE Cut(x.session_history, x.slot_E)), !.slot_E = Min(x.slot_E, Cut(x.session_history, x.slot_E)), !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.session_inflight = FALSE, !.full_available = x.full_available + Max(0, Ceil(x.slot_A) - Ceil(IF keeps_slack /\ x.slot_E <= x.session_history THEN x.slot_A ELSE Cut(x.session_history, x.slot_E))), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.slot_A) - Max(Ceil(IF keeps_slack /\ x.slot_E <= x.session_history THEN x.slot_A ELSE Cut(x.session_history, x.slot_E)), x.slot_E)))] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {Freed(l, a, Ceil(IF keeps_slack /\ x.slot_E <= x.session_history THEN x.slot_A ELSE Cut(x.session_history, x.slot_E)), Ceil(x.slot_A)) : l \in {pages.full}} :
        \E two \in IF has_swa THEN {Freed(l, a, Max(Ceil(IF keeps_slack /\ x.slot_E <= x.session_history THEN x.slot_A ELSE Cut(x.session_history, x.slot_E)), x.slot_E), Ceil(x.slot_A)) : l \in {pages.swa}} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-RETRACT. The scheduler retracts a running or parked turn. The turn's KV of known tokens moves to the slot, which is created if absent. The turn waits and is still in flight.
T_RETRACT(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  \* begun
  /\ Begun(x)
  \* answering
  /\ Answering(x)
  \* keeps
  /\ retract_keeps
  /\ LET y == [x EXCEPT !.slot_holding = TRUE, !.slot_lent = FALSE, !.slot_row = x.req_row, !.slot_Q = x.req_Q, !.slot_locked = TRUE, !.slot_C = Min(x.req_C, Known(x)), !.slot_A = x.req_A, !.slot_E = x.req_E, !.req_phase = PhaseWaiting, !.req_rounds = (IF retract_keeps THEN 0 ELSE x.req_rounds), !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE] IN
     /\ Within(y)
     /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
     /\ pools' = PoolsOf(y)
     /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
     /\ freerows' = freerows
     /\ \E one \in {pages.full} :
        \E two \in IF has_swa THEN {pages.swa} ELSE {pages.swa} :
           pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-RETRACT-WIPE. The scheduler retracts a running or parked turn and releases the turn's KV and slot. The turn waits and is still in flight.
T_RETRACT_WIPE(a, x) ==
  \* turn
  /\ x.req_kind = KindTurn
  \* begun
  /\ Begun(x)
  \* answering
  /\ Answering(x)
  \* wipes
  /\ ~retract_keeps
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= LocksEither(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - LocksEither(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(LocksEither(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - LocksEither(x)
        /\ LET y == [x EXCEPT !.slot_holding = FALSE, !.slot_lent = FALSE, !.slot_row = NoRow, !.slot_C = 0, !.slot_A = 0, !.slot_Q = 0, !.slot_E = 0, !.slot_locked = FALSE, !.req_phase = PhaseWaiting, !.req_rounds = (IF retract_keeps THEN 0 ELSE x.req_rounds), !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.full_available = x.full_available + Max(0, ReqPrivate(x)), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.req_A) - Max(x.req_Q, x.req_E))), !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, IF x.req_row # NoRow THEN 1 ELSE 0)] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = (freerows \cup (IF (IF x.req_row # NoRow THEN 1 ELSE 0) = 1 THEN {MyRow(x)} ELSE {}))
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Freed(l, a, x.req_Q, Ceil(x.req_A)) : l \in {pages.full}}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Freed(l, a, Max(x.req_Q, x.req_E), Ceil(x.req_A)) : l \in {pages.swa}}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-EVICT. The prefix tree evicts unlocked pages to the free list.
T_EVICT(a, x) ==
  /\ \E n \in Tokens :
     \* n
     /\ 0 <= n
     /\ Aligned(n)
     \* full_evictable
     /\ Max(0, n) <= x.full_evictable
     /\ \E swa_n \in SwaTokens :
        \* swa_n
        /\ 0 <= swa_n
        /\ Aligned(swa_n)
        \* swa_evictable
        /\ IfSwa(Max(0, swa_n)) <= x.swa_evictable
        /\ LET y == [x EXCEPT !.full_evictable = x.full_evictable - Max(0, n), !.full_available = x.full_available + Max(0, n), !.swa_evictable = x.swa_evictable - IfSwa(Max(0, swa_n)), !.swa_available = x.swa_available + IfSwa(Max(0, swa_n))] IN
           /\ Within(y)
           /\ actors' = actors
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> n, step_swa_evicted |-> swa_n])
           /\ freerows' = freerows
           /\ \E one \in UNION {Evicted(l, n) : l \in {pages.full}} :
              \E two \in IF has_swa THEN UNION {Evicted(l, swa_n) : l \in {pages.swa}} ELSE {pages.swa} :
                 pages' = [full |-> one, swa |-> two]

\* T-PLAIN-FINISH. A request without a session finishes. The tree takes the KV of prompt and answer up to q, except for tokens of the last rounds. The remaining KV, the row and the lock are released.
T_PLAIN_FINISH(a, x) ==
  \* plain
  /\ x.req_kind = KindPlain
  \* running
  /\ x.req_phase = PhaseRunning
  \* prefilled
  /\ x.req_prompt <= x.req_C
  /\ \E q \in Tokens :
     \* q
     /\ x.req_Q <= q /\ q <= Floor(Min(x.req_C, Known(x)))
     /\ Aligned(q)
     \* answer
     /\ (x.req_E <= x.req_Q => Floor(Min(x.req_C, Certain(x))) <= q)
     /\ \E dup \in Tokens :
        \* dup
        /\ 0 <= dup /\ dup <= q - x.req_Q
        /\ Aligned(dup)
        /\ \E swa_dup \in SwaTokens :
           \* swa_dup
           /\ 0 <= swa_dup /\ swa_dup <= Max(0, x.req_Q + dup - Max(x.req_Q, x.req_E))
           /\ Aligned(swa_dup)
           /\ \E u \in Tokens :
              \* u
              /\ 0 <= u /\ u <= ReqLocks(x)
              /\ Aligned(u)
              \* u_others
              /\ x.frame_lock_max <= x.full_protected - u
              /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - ReqLocks(x)
              /\ \E swa_u \in SwaTokens :
                 \* swa_u
                 /\ 0 <= swa_u /\ swa_u <= IfSwa(ReqLocks(x))
                 /\ Aligned(swa_u)
                 \* swa_u_others
                 /\ 0 <= x.swa_protected - swa_u
                 /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - ReqLocks(x)
                 /\ LET y == [x EXCEPT !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.full_available = x.full_available + Max(0, x.req_Q + dup - x.req_Q) + Max(0, Ceil(x.req_A) - q), !.swa_available = x.swa_available + IfSwa(Max(0, Max(x.req_Q, x.req_E) + swa_dup - Max(x.req_Q, x.req_E))) + IfSwa(Max(0, Ceil(x.req_A) - Max(q, x.req_E))), !.full_evictable = x.full_evictable + Max(0, q - (x.req_Q + dup)) + Max(0, u), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, q - (Max(x.req_Q, x.req_E) + swa_dup))) + IfSwa(Max(0, swa_u)), !.full_protected = x.full_protected - Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, IF x.req_row # NoRow THEN 1 ELSE 0)] IN
                    /\ Within(y)
                    /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
                    /\ pools' = PoolsOf(y)
                    /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> TRUE, step_at |-> -1, step_detached |-> FALSE, step_published |-> q, step_evicted |-> 0, step_swa_evicted |-> 0])
                    /\ freerows' = (freerows \cup (IF (IF x.req_row # NoRow THEN 1 ELSE 0) = 1 THEN {MyRow(x)} ELSE {}))
                    /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Shared(l, a, x.req_Q + dup, q) : l \in {Freed(l, a, q, Ceil(x.req_A)) : l \in {Freed(l, a, x.req_Q, x.req_Q + dup) : l \in {pages.full}}}}} :
                       \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Shared(l, a, Max(x.req_Q, x.req_E) + swa_dup, q) : l \in {Freed(l, a, Max(q, x.req_E), Ceil(x.req_A)) : l \in {Freed(l, a, Max(x.req_Q, x.req_E), Max(x.req_Q, x.req_E) + swa_dup) : l \in {pages.swa}}}}} ELSE {pages.swa} :
                          pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-PLAIN-ABORT. A client aborts a request without a session. Its private KV, row and lock are released.
T_PLAIN_ABORT(a, x) ==
  \* plain
  /\ x.req_kind = KindPlain
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= ReqLocks(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - ReqLocks(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(ReqLocks(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - ReqLocks(x)
        /\ LET y == [x EXCEPT !.req_kind = KindNone, !.req_phase = PhaseAbsent, !.req_prompt = 0, !.req_output = 0, !.req_told = 0, !.req_rounds = 0, !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.full_available = x.full_available + Max(0, ReqPrivate(x)), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.req_A) - Max(x.req_Q, x.req_E))), !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, IF x.req_row # NoRow THEN 1 ELSE 0)] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> TRUE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = (freerows \cup (IF (IF x.req_row # NoRow THEN 1 ELSE 0) = 1 THEN {MyRow(x)} ELSE {}))
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Freed(l, a, x.req_Q, Ceil(x.req_A)) : l \in {pages.full}}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Freed(l, a, Max(x.req_Q, x.req_E), Ceil(x.req_A)) : l \in {pages.swa}}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

\* T-PLAIN-RETRACT. The scheduler retracts a running or parked request without a session. Its private KV, row and lock are released, and the request waits.
T_PLAIN_RETRACT(a, x) ==
  \* plain
  /\ x.req_kind = KindPlain
  \* begun
  /\ Begun(x)
  \* answering
  /\ Answering(x)
  /\ \E u \in Tokens :
     \* u
     /\ 0 <= u /\ u <= ReqLocks(x)
     /\ Aligned(u)
     \* u_others
     /\ x.frame_lock_max <= x.full_protected - u
     /\ x.full_protected - u <= x.frame_lock_sum + LockSum(x) - ReqLocks(x)
     /\ \E swa_u \in SwaTokens :
        \* swa_u
        /\ 0 <= swa_u /\ swa_u <= IfSwa(ReqLocks(x))
        /\ Aligned(swa_u)
        \* swa_u_others
        /\ 0 <= x.swa_protected - swa_u
        /\ x.swa_protected - swa_u <= x.frame_lock_sum + LockSum(x) - ReqLocks(x)
        /\ LET y == [x EXCEPT !.req_phase = PhaseWaiting, !.req_rounds = (IF retract_keeps THEN 0 ELSE x.req_rounds), !.req_row = NoRow, !.req_C = 0, !.req_A = 0, !.req_Q = 0, !.req_E = 0, !.req_locked = FALSE, !.full_available = x.full_available + Max(0, ReqPrivate(x)), !.swa_available = x.swa_available + IfSwa(Max(0, Ceil(x.req_A) - Max(x.req_Q, x.req_E))), !.full_protected = x.full_protected - Max(0, u), !.full_evictable = x.full_evictable + Max(0, u), !.swa_protected = x.swa_protected - IfSwa(Max(0, swa_u)), !.swa_evictable = x.swa_evictable + IfSwa(Max(0, swa_u)), !.rows_free = x.rows_free + Max(0, IF x.req_row # NoRow THEN 1 ELSE 0)] IN
           /\ Within(y)
           /\ actors' = [actors EXCEPT ![a] = OwnOf(y)]
           /\ pools' = PoolsOf(y)
           /\ broken' = ~StepHolds(x, y, [step_new |-> 0, step_closes |-> FALSE, step_final |-> FALSE, step_finishes |-> FALSE, step_at |-> -1, step_detached |-> FALSE, step_published |-> -1, step_evicted |-> 0, step_swa_evicted |-> 0])
           /\ freerows' = (freerows \cup (IF (IF x.req_row # NoRow THEN 1 ELSE 0) = 1 THEN {MyRow(x)} ELSE {}))
           /\ \E one \in UNION {Unlocked(l, a, u, y, InTree_full, FALSE) : l \in {Freed(l, a, x.req_Q, Ceil(x.req_A)) : l \in {pages.full}}} :
              \E two \in IF has_swa THEN UNION {Unlocked(l, a, swa_u, y, InTree_swa, FALSE) : l \in {Freed(l, a, Max(x.req_Q, x.req_E), Ceil(x.req_A)) : l \in {pages.swa}}} ELSE {pages.swa} :
                 pages' = [full |-> Tidy(one, a, y, InTree_full, InOwn_full), swa |-> Tidy(two, a, y, InTree_swa, InOwn_swa)]

Init ==
  /\ pools = [full_available |-> full_total, full_evictable |-> 0, full_protected |-> 0, swa_available |-> swa_total, swa_evictable |-> 0, swa_protected |-> 0, rows_free |-> rows_total]
  /\ actors = [a \in Actors |-> Nobody]
  /\ pages = [full |-> Empty(full_total), swa |-> Empty(swa_total)]
  /\ freerows = Lines
  /\ broken = FALSE

Next ==
  LET share == Shares IN
  \/ \E a \in Actors : LET x == Seen(a, share) IN
       \/ "T-OPEN" \in Steps /\ T_OPEN(a, x)
       \/ "T-CLOSE" \in Steps /\ T_CLOSE(a, x)
       \/ "T-CLOSE-DEFER" \in Steps /\ T_CLOSE_DEFER(a, x)
       \/ "T-REAP" \in Steps /\ T_REAP(a, x)
       \/ "T-SUBMIT" \in Steps /\ T_SUBMIT(a, x)
       \/ "T-REJECT" \in Steps /\ T_REJECT(a, x)
       \/ "T-DOOM" \in Steps /\ T_DOOM(a, x)
       \/ "T-PLAIN-SUBMIT" \in Steps /\ T_PLAIN_SUBMIT(a, x)
       \/ "T-MATCH" \in Steps /\ T_MATCH(a, x)
       \/ "T-RESTORE" \in Steps /\ T_RESTORE(a, x)
       \/ "T-DISCARD" \in Steps /\ T_DISCARD(a, x)
       \/ "T-REFUSE" \in Steps /\ T_REFUSE(a, x)
       \/ "T-EXTEND" \in Steps /\ T_EXTEND(a, x)
       \/ "T-PARK" \in Steps /\ T_PARK(a, x)
       \/ "T-INSERT" \in Steps /\ T_INSERT(a, x)
       \/ "T-DECODE" \in Steps /\ T_DECODE(a, x)
       \/ "T-LAUNCH" \in Steps /\ T_LAUNCH(a, x)
       \/ "T-RESULT" \in Steps /\ T_RESULT(a, x)
       \/ "T-LATE-RESULT" \in Steps /\ T_LATE_RESULT(a, x)
       \/ "T-SWA-ADVANCE" \in Steps /\ T_SWA_ADVANCE(a, x)
       \/ "T-SAVE" \in Steps /\ T_SAVE(a, x)
       \/ "T-LATE-FINISH" \in Steps /\ T_LATE_FINISH(a, x)
       \/ "T-ABORT" \in Steps /\ T_ABORT(a, x)
       \/ "T-ABORT-PUBLISH" \in Steps /\ T_ABORT_PUBLISH(a, x)
       \/ "T-OOM" \in Steps /\ T_OOM(a, x)
       \/ "T-ABORT-WAITING" \in Steps /\ T_ABORT_WAITING(a, x)
       \/ "T-ABORT-PARTIAL" \in Steps /\ T_ABORT_PARTIAL(a, x)
       \/ "T-RETRACT" \in Steps /\ T_RETRACT(a, x)
       \/ "T-RETRACT-WIPE" \in Steps /\ T_RETRACT_WIPE(a, x)
       \/ "T-PLAIN-FINISH" \in Steps /\ T_PLAIN_FINISH(a, x)
       \/ "T-PLAIN-ABORT" \in Steps /\ T_PLAIN_ABORT(a, x)
       \/ "T-PLAIN-RETRACT" \in Steps /\ T_PLAIN_RETRACT(a, x)
  \/ /\ "T-EVICT" \in Steps
     /\ T_EVICT(0, View(pools, Nobody, share, Actors))

Spec == Init /\ [][Next]_vars
==============================================================================
