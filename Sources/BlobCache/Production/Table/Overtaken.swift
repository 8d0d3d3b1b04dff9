/// The produced blob is not stored: its key was changed since the production began.
struct Superseded: Error {}
