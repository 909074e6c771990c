"""How packs are made: from measured kernels or from first principles, and compared with measurements."""
