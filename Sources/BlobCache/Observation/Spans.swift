internal import BlobRecord

#if Tracing
  internal import Tracing

  /// Makes a span of swift-distributed-tracing around an operation that goes to disk, or produces.
  ///
  /// The key is an attribute, so a tracer must be trusted with keys.
  func withSpan<Result>(
    _ operation: String, _ key: BlobKey?, _ body: () async throws -> Result
  ) async throws -> Result {
    let tracer = InstrumentationSystem.tracer
    guard !(tracer is NoOpTracer) else { return try await body() }
    let span = tracer.startAnySpan("blobcache." + operation)
    defer { span.end() }
    if let key { span.attributes["blobcache.key"] = key.string }
    do {
      return try await ServiceContext.$current.withValue(span.context) { try await body() }
    } catch {
      span.recordError(error)
      throw error
    }
  }
#else
  /// The trait `Tracing` is off: there is nothing to make spans with.
  func withSpan<Result>(
    _ operation: String, _ key: BlobKey?, _ body: () async throws -> Result
  ) async throws -> Result {
    try await body()
  }
#endif
