"""Singh et al. 2025, ElasticMoE: experts over more devices while serving, https://arxiv.org/abs/2510.02613."""
