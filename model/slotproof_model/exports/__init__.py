"""The spec for other provers: SMT-LIB for cvc5, TLA+ for TLC."""
