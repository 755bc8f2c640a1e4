"""The default learner, which needs nothing but a budget: a frozen source model, experts, and an arbiter above them.

Linear models: `round` states one round. The experts have a file each: `student` (trains itself), `regression`, `bayes`,
`neighbours` and `forest` (learn from labels alone). `arbiter` weighs them, `scale` and `memory` are what they share,
and `state` says where everything lies in one vector. Networks have a preset of their own (`osamd.fleet.preset_fleet`):
a different algorithm, which shares the arbiter's blend.
"""
