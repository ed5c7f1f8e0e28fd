"""Serving engines that deployments are written for; each file registers one."""
