"""The paper's table and figures: settings, the paper's numbers, and ours."""
