//! Signals as messages (signalfd(2)).
