"""What the tests share: builders with good defaults, servers, processes, a misbehaving proxy."""
