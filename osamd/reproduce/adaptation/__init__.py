"""The preset for networks beside methods of test-time adaptation, at equal labels."""
