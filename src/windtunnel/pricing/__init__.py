"""From one rank's operators to priced launches, and from launches to the seconds of a block: training and serving."""
