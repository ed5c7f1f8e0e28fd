"""DeepConf: deep think with confidence (Fu et al. 2025)."""
