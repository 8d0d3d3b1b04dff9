/// A build tool that keeps its products in a cache over HTTP: Spec/Server.md, *Build tools*.
///
/// Its name is the first part of its paths, and of its keys.
public enum BuildTool: String, CaseIterable, Sendable {
  /// Bazel, and what else speaks its simple protocol: https://bazel.build/remote/caching
  case bazel
  /// ccache, in each of its layouts: https://ccache.dev/manual/latest.html#_http_storage_backend
  case ccache
  /// sccache, by WebDAV: https://github.com/mozilla/sccache/blob/main/docs/Webdav.md
  case sccache
  /// Gradle: https://docs.gradle.org/current/userguide/build_cache.html
  case gradle
  /// Turborepo: https://turborepo.com/docs/openapi
  case turbo
}
