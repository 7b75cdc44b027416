"""Phase 1, learning the network; the only room in which torch is imported (extra `train`)."""
