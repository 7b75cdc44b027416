"""What the package brings: backbones, features, class names."""
