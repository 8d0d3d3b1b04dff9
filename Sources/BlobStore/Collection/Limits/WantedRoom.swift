/// Bytes that are wanted below a limit.
struct WantedRoom {
  /// Those of the largest record that waits for room just now, whose store is refused without it.
  var waiting: Int64
  /// Those that writers have reserved, which are refused nothing before their commits.
  var reserved: Int64

  /// What a collection leaves free.
  var bytes: Int64 { max(waiting, reserved) }
}
