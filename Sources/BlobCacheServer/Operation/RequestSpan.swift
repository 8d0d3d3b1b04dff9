#if Tracing
  internal import Tracing

  extension BlobResponder {
    /// Traces a request with a span of swift-distributed-tracing, as a child of the span in its fields (`traceparent`).
    func withSpan(of request: ServerRequest, _ body: () async -> ServerResponse) async -> ServerResponse {
      let tracer = InstrumentationSystem.tracer
      guard !(tracer is NoOpTracer) else { return await body() }
      var context = ServiceContext.current ?? .topLevel
      InstrumentationSystem.instrument.extract(request.fields, into: &context, using: FieldExtractor())
      let span = tracer.startAnySpan("blobcache.request", context: context, ofKind: .server)
      defer { span.end() }
      // Attribute names of OpenTelemetry's semantic conventions for HTTP.
      span.attributes["http.request.method"] = request.method
      let response = await ServiceContext.$current.withValue(span.context) { await body() }
      span.attributes["http.response.status_code"] = response.status
      if response.status >= 500 { span.setStatus(SpanStatus(code: .error)) }
      return response
    }
  }

  private struct FieldExtractor: Extractor {
    func extract(key: String, from fields: HeaderFields) -> String? { fields[key] }
  }
#else
  extension BlobResponder {
    func withSpan(of request: ServerRequest, _ body: () async -> ServerResponse) async -> ServerResponse {
      await body()
    }
  }
#endif
