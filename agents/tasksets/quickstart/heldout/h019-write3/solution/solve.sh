#!/bin/bash
set -e
cd /app
echo cloud > text.txt
echo silk > config.txt
echo wolf > copy.txt
