"""AMD's profilers: databases, JSON and CSV of rocprofv3, rocprof and rocmProfileData -> Trace."""
