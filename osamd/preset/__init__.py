"""The default learner, which needs nothing but a budget: a frozen source model, experts, and an arbiter above them.

For linear models, `round` states one round. The experts have a file each: `student` (trains itself), `regression`,
`bayes`, `neighbours` and `forest` (learn only from labels). `arbiter` weighs them, `scale` and `memory` are what they
share, and `state` says where everything lies in one vector. Networks have their own preset
(`osamd.fleet.preset_fleet`): a different algorithm under the same arbiter.
"""
