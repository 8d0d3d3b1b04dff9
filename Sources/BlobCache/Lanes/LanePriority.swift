/// In which order a lane does what waits, after the priority of the task that asks.
package enum LanePriority: Int, CaseIterable, Sendable {
  case high, medium, low, background

  package init(_ priority: TaskPriority) {
    switch priority {
    case .high...: self = .high
    case .medium...: self = .medium
    case .low...: self = .low
    default: self = .background
    }
  }
}
