/// What was produced is not stored: its key was stored or removed since the production began.
struct Overtaken: Error {}
