"""What is going on: one read model for the command line and everything else."""
