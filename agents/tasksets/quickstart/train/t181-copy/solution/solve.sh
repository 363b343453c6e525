#!/bin/bash
set -e
cd /app
cp item.txt config.txt
echo pillow > copy.txt
