"""Many simulated runs at once: studies over policies, seeds and settings, what they come to, tables and plots."""
