/// How scarce memory is.
public enum MemoryPressure: Int, Comparable, CaseIterable, Sendable {
  /// Worth giving some back.
  case warning = 1
  /// The system is about to end processes.
  case critical = 2

  public static func < (a: MemoryPressure, b: MemoryPressure) -> Bool { a.rawValue < b.rawValue }
}
