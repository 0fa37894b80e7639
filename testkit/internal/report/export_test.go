package report

// WriteHTMLWithRows is WriteHTML with a given maximum of rows, so that a test need not fill a real page.
var WriteHTMLWithRows = writeHTML
