//! Shared helpers of the nvaprobe test suite.
