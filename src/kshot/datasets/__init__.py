"""Images with labels: CIFAR-100, miniImageNet, class folders; drawing k-shot tasks; reading any photograph safely."""
