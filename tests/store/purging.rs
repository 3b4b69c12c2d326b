//! A purged session is gone for good, whatever comes back.
