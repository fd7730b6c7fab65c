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

\* ----

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

\* ----

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
