/// What a probe writes when its operation has ended.
public struct ProbeReport: Codable, Sendable {
  public var type = "result"
  public var result: OperationResult
  /// Measured while the store was still open.
  public var held: HeldResources
  public var seconds: Double

  public init(result: OperationResult, held: HeldResources, seconds: Double) {
    self.result = result
    self.held = held
    self.seconds = seconds
  }
}
