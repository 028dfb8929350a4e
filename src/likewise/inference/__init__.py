"""Statistics on outcomes; numpy and scipy only."""
