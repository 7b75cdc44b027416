"""One file per table or figure of the paper, the claims they are held against, and the page that shows both."""
