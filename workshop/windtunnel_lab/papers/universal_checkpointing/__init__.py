"""Universal checkpointing: conversion of checkpoints, runs on fewer nodes."""
