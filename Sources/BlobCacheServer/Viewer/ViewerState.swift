internal import Locks

/// What the viewer of a server remembers between requests.
final class ViewerState: Sendable {
  let surveys = Surveys()
  let samples = Samples()
  let verification = Verification()
  /// Stands in each form. A page of another site knows none.
  let formToken = RandomToken.make()

  func isFormToken(_ text: String) -> Bool { RandomToken.areEqual(text, formToken) }

  /// The hidden field of a form.
  var tokenField: HTML { "<input type=\"hidden\" name=\"\(FormFields.tokenName)\" value=\"\(formToken)\">" }
}
