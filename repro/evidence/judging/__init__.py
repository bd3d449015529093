"""How a number of ours is judged beside a published one."""
