/// The order of a lane's waiting calls, after the priority of their tasks.
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
