/// So that `localizedDescription` tells what happened, instead of a number.
extension BlobStoreError: LocalizedError {
  public var errorDescription: String? { description }
  public var failureReason: String? { message }
}
