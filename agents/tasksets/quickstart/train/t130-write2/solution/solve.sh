#!/bin/bash
set -e
cd /app
echo stone > key.txt
echo wheel > copy.txt
