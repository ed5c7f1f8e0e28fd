"""What users write: model, cluster, workload and plan as frozen records, and the files that hold them."""
