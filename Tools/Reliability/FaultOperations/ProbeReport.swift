/// The report that a probe writes after its operation.
public struct ProbeReport: Codable, Sendable {
  public var type = "result"
  public var result: OperationResult
  /// The resources that were held while the store was still open.
  public var held: HeldResources
  public var seconds: Double
  /// The system calls and steps in shared memory, if requested.
  public var steps: [String]?

  public init(result: OperationResult, held: HeldResources, seconds: Double, steps: [String]? = nil) {
    self.result = result
    self.held = held
    self.seconds = seconds
    self.steps = steps
  }
}
