/// A record file as the counters see it.
struct RecordSize {
  var bytes: Int64
  var isLocked: Bool
}
