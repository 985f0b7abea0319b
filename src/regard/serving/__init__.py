"""Workers and jobs, shared by servers. Nothing here imports torch: a server answers before torch is there."""
