//! Signals: sending, blocking, delivering.
