"""ATTS: asynchronous test-time scaling (Xiong et al. 2025)."""
