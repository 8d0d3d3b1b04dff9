/// A history that no order of its operations explains.
public struct Violation: Sendable {
  /// The operation whose answer was not possible in any order.
  public var operation: Operation
  /// The possible contents of the key immediately before the operation.
  public var possible: [Register]
  /// The operations since the last moment without pending operations, limited to the latest ones.
  public var window: [Operation]
  /// A Boolean value that indicates whether the search was stopped because too many orders were possible.
  public var isUndecided = false
}

extension Violation: CustomStringConvertible {
  public var description: String {
    var lines = [isUndecided ? "too many possible orders to decide" : "no order of the operations explains:"]
    lines.append("  \(operation)")
    lines.append("the key may have held, before what was then under way:")
    lines += possible.prefix(16).map { "  \($0)" }
    lines.append("the operations until then:")
    lines += window.map { "  \($0)" }
    return lines.joined(separator: "\n")
  }
}
